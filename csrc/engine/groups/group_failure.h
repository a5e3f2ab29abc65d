// SPDX-License-Identifier: Apache-2.0
// How a group fails. The first thing that goes wrong counts: it becomes the status of this rank's
// operations, and the other ranks are told of it in notices, several times as these may be lost.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/rank.h"
#include "base/status.h"
#include "base/time.h"
#include "engine/groups/gone_groups.h"
#include "engine/groups/group_spec.h"
#include "transport/transport.h"

namespace rocecoll {

class GroupFailure {
 public:
  // Both outlive this.
  GroupFailure(Transport& transport, const GroupSpec& group)
      : transport_(transport), group_(group) {}

  // Ok until the group has failed or ended.
  const Status& status() const { return status_; }
  // `why` has no prefix. Its reporter, if any, is the rank that found it, whose words go on as they
  // came. `operation` describes this rank's operation that it was found with, or is empty. Returns
  // what the other ranks are told; ok if the group had failed before, which changes nothing.
  Status fail(const Status& why, const std::string& operation);
  // The same with a message that is the caller's own, shown and told as it is.
  Status abort(const Status& why);
  // What failed while the group was ended for it.
  void add(const std::string& what);
  // The rank that found it has told everyone.
  void spare_notices() { notices_left_ = 0; }
  // Sends the notice if it is time to. True if it was.
  bool step(Instant now);
  Instant next_deadline() const { return notices_left_ > 0 ? next_notice_ : kNever; }
  // Tells a rank that comes to a group that has failed, as it has missed the notice. It asks again
  // if this one is lost, too.
  void tell(Rank peer);
  // The group ends: sends what is left to be sent. A group that has not failed gets the status of
  // operations that are pending then; `operation` describes the oldest of them, or is empty.
  void leave(const std::string& operation);
  // What ranks that come after the end are told: that it failed, or that this rank left.
  PartingWord parting_word() const;

 private:
  Status begin(Status shown, const Status& report);
  void tell_everyone();

  Transport& transport_;
  const GroupSpec& group_;
  Status status_;
  std::vector<std::byte> notice_;  // empty until it fails
  int notices_left_ = 0;
  Instant next_notice_{};
};

}  // namespace rocecoll
