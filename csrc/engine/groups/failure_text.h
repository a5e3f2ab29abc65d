// SPDX-License-Identifier: Apache-2.0
// The messages that users read when a group fails:
//   rocecoll: group "default": all_reduce #17 (SUM, float32, 1024 elements): <cause>; <what to do>
// Ranks are global, with the address that every host knows them by, because what one rank reports
// is read on all others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/rank.h"
#include "base/status.h"
#include "base/time.h"
#include "messenger/messenger.h"

namespace rocecoll {

struct GroupSpec;
struct OperationSpec;

class FailureText {
 public:
  explicit FailureText(const GroupSpec& group) : group_(group) {}

  // "10.0.0.3:40123", or empty.
  const std::string& address(Rank group_rank) const;
  // "rank 2 (10.0.0.3:40123)".
  std::string peer(Rank group_rank) const;
  std::string peers(const std::vector<Rank>& group_ranks) const;
  // "all_reduce #17 (SUM, float32, 1024 elements)".
  std::string operation(const Fingerprint& fingerprint, uint64_t sequence) const;
  // "send #3 (to rank 1, tag 0, float32, 1024 elements)", "recv #4 (from any rank, ...)".
  std::string message_call(const OperationSpec& spec, uint64_t sequence) const;
  // Says that nothing ever came from a rank, and `why`.
  std::string no_contact(Rank peer, const std::string& why) const;
  // What this rank's own link or messenger found. For a rank that is gone it says where to look,
  // since that rank cannot; `first_missed` is when it was first silent, or empty.
  std::string link_cause(const MessengerFailure& failure, const std::string& first_missed) const;
  // The whole message.
  std::string message(StatusCode code, const std::string& cause) const;
  // The same for the log, whose lines say that they are rocecoll's.
  std::string log_text(StatusCode code, const std::string& cause) const;
  // What another rank found: "rank 1 (10.0.0.2:40001) reported: timeout: ...".
  std::string report(const Status& report) const;

 private:
  // "rank 2".
  std::string name(Rank group_rank) const;
  std::string see_log(Rank of) const;
  const std::string& own_address(Rank towards) const;

  const GroupSpec& group_;
};

// "1.5 s".
std::string DescribeDuration(Duration duration);

}  // namespace rocecoll
