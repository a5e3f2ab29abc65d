// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/wait_watch.h"

#include <algorithm>

#include "base/wall_clock.h"
#include "engine/groups/failure_text.h"
#include "engine/groups/group_spec.h"

namespace rocecoll {
namespace {

// Between looks while something is pending.
constexpr Duration kLookInterval = std::chrono::milliseconds(500);
constexpr Duration kLeastInterval = std::chrono::milliseconds(10);
// At most this many of the ranks that are waited for are described.
constexpr size_t kDescribed = 8;

Duration Silence(const LinkContact& contact) {
  return contact.established ? contact.heartbeat_interval + WaitWatch::kLate
                             : WaitWatch::kSilenceUnopened;
}

std::string Obstructed(const LinkContact& contact) {
  if (contact.obstacle == Obstacle::kNone) return {};
  return "; " + std::string(Describe(contact.obstacle));
}

// Whether this host cannot send to the rank, even if it still hears it.
bool CannotSend(const LinkContact& contact) {
  return contact.obstacle == Obstacle::kNetworkUnreachable ||
         contact.obstacle == Obstacle::kProhibitedHere;
}

}  // namespace

std::vector<LogEntry> WaitWatch::look(Instant now, const std::vector<AwaitedRank>& awaited,
                                      const std::string& operation) {
  std::vector<LogEntry> entries;
  next_look_ = now + kLookInterval;
  for (const AwaitedRank& rank : awaited) {
    look_at(now, rank, operation, entries);
    if (!rank.contact.ever_heard) continue;
    const Instant silent_at = rank.contact.heard_at + Silence(rank.contact);
    if (silent_at > now)
      next_look_ = std::min(next_look_, std::max(silent_at, now + kLeastInterval));
  }
  return entries;
}

void WaitWatch::look_at(Instant now, const AwaitedRank& awaited, const std::string& operation,
                        std::vector<LogEntry>& entries) {
  const LinkContact& contact = awaited.contact;
  const FailureText text(group_);
  const Duration silence = now - contact.heard_at;
  const auto missed = std::ranges::find(missed_, awaited.rank, &Missed::rank);
  if (missed != missed_.end()) {
    if (contact.heard_at <= missed->heard_at || CannotSend(contact)) return;
    entries.push_back({Severity::kInfo, "group \"" + group_.name + "\": " +
                                            text.peer(awaited.rank) + " is heard again after " +
                                            DescribeDuration(contact.heard_at - missed->heard_at)});
    missed_.erase(missed);
  }
  if (!contact.ever_heard) {
    // The network's report may be of a short flap, but users want to know at once.
    if (contact.obstacle == Obstacle::kNone && silence < kNoContact) return;
    const std::string why = "nothing heard for " + DescribeDuration(silence) + Obstructed(contact);
    entries.push_back({Severity::kWarning,
                       text.log_text(StatusCode::kNoContact, text.no_contact(awaited.rank, why))});
  } else {
    const bool silent = silence >= Silence(contact);
    if (!silent && !CannotSend(contact)) return;
    const std::string what = silent ? "nothing heard from " + text.peer(awaited.rank) + " for " +
                                          DescribeDuration(silence)
                                    : "no packet gets to " + text.peer(awaited.rank);
    entries.push_back({Severity::kWarning, "group \"" + group_.name + "\": " + what +
                                               Obstructed(contact) + "; " + operation +
                                               " waits for it"});
  }
  missed_.push_back({awaited.rank, contact.heard_at, contact.ever_heard, TimeOfDay(Duration{0})});
}

std::string WaitWatch::first_missed(Rank rank) const {
  const auto missed = std::ranges::find(missed_, rank, &Missed::rank);
  return missed != missed_.end() && missed->ever_heard ? missed->at : std::string();
}

bool WaitWatch::report_due(Instant now, uint64_t order, Instant submitted) {
  if (report_of_ != order) {
    report_of_ = order;
    report_after_ = kFirstReport;
  }
  if (now >= submitted + report_after_) return true;
  next_look_ = std::min(next_look_, submitted + report_after_);
  return false;
}

void WaitWatch::reported(Instant now, Instant submitted) {
  using std::chrono::seconds;
  while (submitted + report_after_ <= now) {
    if (report_after_ < seconds(30)) {
      report_after_ = seconds(30);
    } else if (report_after_ < seconds(60)) {
      report_after_ = seconds(60);
    } else {
      report_after_ *= 2;
    }
  }
}

std::string DescribeContacts(const GroupSpec& group, Instant now,
                             const std::vector<AwaitedRank>& awaited) {
  const FailureText text(group);
  std::string list;
  for (size_t i = 0; i < awaited.size(); ++i) {
    if (i == kDescribed) {
      return list + " and " + std::to_string(awaited.size() - i) + " more ranks";
    }
    const LinkContact& contact = awaited[i].contact;
    list += (i > 0 ? ", " : "") + text.peer(awaited[i].rank) + ": ";
    // A packet may have come in the very step whose time is `now`.
    const Duration silence = std::max(now - contact.heard_at, Duration{0});
    list += contact.ever_heard ? "heard " + DescribeDuration(silence) + " ago"
                               : std::string("never heard");
    if (contact.obstacle != Obstacle::kNone) list += ", " + std::string(Describe(contact.obstacle));
  }
  return list;
}

}  // namespace rocecoll
