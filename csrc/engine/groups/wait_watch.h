// SPDX-License-Identifier: Apache-2.0
// What users are told while an operation waits, long before its deadline: that a rank has fallen
// silent, that no packet ever came from one, and from time to time that the operation still waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/rank.h"
#include "base/time.h"
#include "messenger/messenger.h"

namespace rocecoll {

struct GroupSpec;

class WaitWatch {
 public:
  // What the network says about a rank that was never heard is told at the first look.
  static constexpr Duration kFirstLook = std::chrono::milliseconds(100);
  // A live rank is heard once in each LinkContact::heartbeat_interval, at most this much late, and
  // before both ends have opened the link at least once a second.
  static constexpr Duration kLate = std::chrono::milliseconds(400);
  static constexpr Duration kSilenceUnopened = std::chrono::milliseconds(2500);
  static constexpr Duration kNoContact = std::chrono::seconds(5);
  static constexpr Duration kFirstReport = std::chrono::seconds(10);

  explicit WaitWatch(const GroupSpec& group) : group_(group) {}

  // From now on an operation is pending.
  void begin(Instant now) {
    if (next_look_ == kNever) next_look_ = now + kFirstLook;
  }
  // No operation is pending.
  void end() {
    next_look_ = kNever;
    report_of_ = 0;
  }
  // As end(), except while a rank is missed: the next operation may follow at once, and it can
  // still be told that the rank is heard again. A look that is due before anything else costs a
  // thread a wake-up.
  void rest() {
    if (missed_.empty()) end();
  }
  Instant next_look() const { return next_look_; }
  // What is to be told now about the ranks that `operation` waits for.
  std::vector<LogEntry> look(Instant now, const std::vector<AwaitedRank>& awaited,
                             const std::string& operation);
  // Whether to report the operation that was submitted as number `order`: after 10, 30 and 60 s,
  // and then whenever the wait has doubled. Call reported() once it was.
  bool report_due(Instant now, uint64_t order, Instant submitted);
  void reported(Instant now, Instant submitted);
  void look_again(Instant at) { next_look_ = at; }
  // "14:03:07.250 UTC" if the rank is silent and was missed, else empty.
  std::string first_missed(Rank rank) const;

 private:
  struct Missed {
    Rank rank = 0;
    Instant heard_at{};
    bool ever_heard = false;
    std::string at;
  };

  void look_at(Instant now, const AwaitedRank& awaited, const std::string& operation,
               std::vector<LogEntry>& entries);

  const GroupSpec& group_;
  Instant next_look_ = kNever;
  std::vector<Missed> missed_;  // ranks that were told about, each at most once
  uint64_t report_of_ = 0;      // the operation that `report_after_` is about; they count from 1
  Duration report_after_ = kFirstReport;
};

// "rank 2 (10.0.0.3:40123): heard 0.2 s ago, rank 3 (...): never heard".
std::string DescribeContacts(const GroupSpec& group, Instant now,
                             const std::vector<AwaitedRank>& awaited);

}  // namespace rocecoll
