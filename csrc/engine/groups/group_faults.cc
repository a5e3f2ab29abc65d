// SPDX-License-Identifier: Apache-2.0
// What makes a group fail and whom it blames, and what it tells while its operations wait.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/log.h"
#include "engine/groups/group.h"
#include "engine/operations/needs.h"

namespace rocecoll {
namespace {

// Whether a link that went down only says that its rank has ended, perhaps after all its work.
// Otherwise the rank has given the group up, or the two cannot talk.
bool IsGone(const Status& down) {
  const StatusCode code = down.code();
  return !down.reporter() && (code == StatusCode::kPeerLost || code == StatusCode::kNoContact);
}

}  // namespace

void Group::fail_from_messenger() {
  const MessengerFailure failure = *messenger_->failure();
  fail_from_link(failure, operations_.find(failure.tag.operation));
}

void Group::fail_from_link(const MessengerFailure& failure, const Running* running) {
  if (failure.status.reporter()) {
    fail_because(failure.status, running);
    return;
  }
  const std::string cause = text().link_cause(failure, watch_.first_missed(failure.peer));
  fail_because(Status(failure.status.code(), cause), running);
}

// A rank that is gone fails the group once an operation needs it: one that has yet to send to it,
// or to receive from it or from any rank. A rank that needs nothing more from it goes on, as a
// program may end right after its last operation.
bool Group::fail_from_lost() {
  const std::vector<MessengerFailure>& lost = messenger_->lost();
  if (lost_seen_ == lost.size() && order_seen_ == last_order_) return false;
  for (; lost_seen_ < lost.size(); ++lost_seen_) {
    const MessengerFailure& failure = lost[lost_seen_];
    if (!IsGone(failure.status)) {
      fail_from_link(MessengerFailure(failure), operations_.find(0));
      return true;
    }
    Log(Severity::kInfo, "group \"" + spec_.name + "\": " +
                             text().link_cause(failure, watch_.first_missed(failure.peer)) +
                             "; operations that need it fail");
  }
  order_seen_ = last_order_;
  for (const MessengerFailure& failure : lost) {
    for (const auto& running : operations_.running()) {
      if (!needs(*running, failure.peer)) continue;
      fail_from_link(MessengerFailure(failure), running.get());
      return true;
    }
    const auto needed = [&](const Entry& entry) {
      return LanesNeedPeer(entry.plan, spec_.rank, failure.peer, entry.tag_operation, 0,
                           *messenger_);
    };
    if (std::ranges::any_of(operations_.queue(), needed)) {
      fail_from_link(MessengerFailure(failure), operations_.find(0));
      return true;
    }
  }
  return false;
}

// Apart from what is posted, which the link itself reports.
bool Group::needs(const Running& running, Rank peer) const {
  if (running.entry.is_collective()) return running.execution.needs(peer);
  const OperationSpec& spec = running.entry.spec();
  return !running.entry.has_tag() && (spec.any_source || spec.root == peer);
}

// A receive from any source may be waiting for any rank that is gone.
bool Group::fail_from_any_source() {
  if (numbers_.overflowed()) {
    fail(StatusCode::kNetwork, "more messages were announced than any rank may have pending");
    return true;
  }
  if (any_source_.empty()) return false;
  if (messenger_->peers_left() + 1 < context_.ranks) return false;
  std::vector<Rank> others(context_.ranks);
  std::iota(others.begin(), others.end(), Rank{0});
  std::erase(others, spec_.rank);
  fail_because(Status(StatusCode::kPeerLeft,
                      "every other rank has left the group: " + text().peers(others) +
                          "; see their own logs first: they may have raised an exception"),
               &operations_.at(any_source_.oldest()));
  return true;
}

bool Group::fail_from_staging() {
  for (const uint32_t index : operations_.staged()) {
    const Running& running = operations_.at(index);
    const Status& status = running.execution.staging_status();
    if (status.ok()) continue;
    fail_because(
        Status(status.code(), "moving data to or from the device of " + text().peer(spec_.rank) +
                                  " failed: " + status.message()),
        &running);
    return true;
  }
  return false;
}

// Before a late collective fails, the other ranks are asked whether they have called it: those that
// this rank waits for may be waiting themselves. True once there is no answer left to wait for.
bool Group::call_the_roll(Instant now, const Running* late, RollCall& roll) {
  if (late == nullptr || !late->entry.is_collective()) return true;
  const uint64_t sequence = late->entry.operation->sequence();
  if (!roll.asks_for(sequence)) roll.begin(now, sequence, context_.ranks, spec_.rank);
  if (roll.over(now)) return true;
  const auto question =
      Encode(RollCallNotice{spec_.key, spec_.rank, RollCallNotice::Kind::kQuestion, sequence});
  roll.ask(now, [&](Rank rank) { transport_.notify(spec_.addresses[rank], question); });
  return false;
}

void Group::on_notice(const RollCallNotice& notice) {
  if (!status().ok() || notice.from == spec_.rank || notice.from >= context_.ranks) return;
  using Kind = RollCallNotice::Kind;
  if (notice.kind != Kind::kQuestion) {
    for (RollCall* roll : {&roll_call_, &watch_roll_}) {
      roll->on_answer(notice.from, notice.sequence, notice.kind == Kind::kCalled);
    }
    return;
  }
  const Kind answer = notice.sequence <= last_sequence_ ? Kind::kCalled : Kind::kNotCalled;
  transport_.notify(spec_.addresses[notice.from],
                    Encode(RollCallNotice{spec_.key, spec_.rank, answer, notice.sequence}));
}

// The rank had no link that could have closed, so it sends this notice to ranks that open one.
void Group::on_notice(const LeftNotice& notice) {
  if (!status().ok() || notice.from == spec_.rank || notice.from >= context_.ranks) return;
  messenger_->on_left(notice.from);
}

void Group::look_at_waits(Instant now) {
  const Running* oldest = operations_.find(0);
  if (oldest == nullptr) {
    watch_.end();
    watch_roll_.end();
    return;
  }
  const std::vector<AwaitedRank> awaited = messenger_->awaited();
  for (LogEntry& entry : watch_.look(now, awaited, describe(*oldest))) {
    Log(entry.severity, std::move(entry.text));
  }
  if (watch_.report_due(now, oldest->entry.order, oldest->entry.submitted)) {
    tell_of_long_wait(now, *oldest, awaited);
  }
}

// Ranks that this one waits for may be waiting themselves, so all are asked whether they have
// called it.
void Group::tell_of_long_wait(Instant now, const Running& oldest,
                              const std::vector<AwaitedRank>& awaited) {
  if (!call_the_roll(now, &oldest, watch_roll_)) {
    watch_.look_again(std::max(now, watch_roll_.next_look()));
    return;
  }
  std::string text = "group \"" + spec_.name + "\": " + describe(oldest) + " has waited " +
                     DescribeDuration(now - oldest.entry.submitted);
  if (!awaited.empty()) text += " for " + DescribeContacts(spec_, now, awaited);
  if (oldest.entry.is_collective()) text += describe_roll(watch_roll_);
  if (oldest.entry.has_tag()) text += "; " + describe_progress(oldest);
  Log(Severity::kWarning, std::move(text));
  watch_.reported(now, oldest.entry.submitted);
  watch_roll_.end();
}

void Group::fail_from_deadline(Instant now) {
  const Running* running = operations_.find_late(now);
  if (!call_the_roll(now, running, roll_call_)) return;
  std::string cause = "timed out";
  if (running != nullptr) {
    const OperationSpec& spec = running->entry.spec();
    cause = now < running->entry.deadline
                ? "an operation behind it timed out"
                : "timed out after " +
                      DescribeDuration(spec.timeout > Duration{0} ? spec.timeout : spec_.timeout);
    if (!running->entry.has_tag()) {
      const std::string tag = "tag " + std::to_string(spec.user_tag);
      cause += spec.any_source ? ", waiting for a message with " + tag + " from any rank"
                               : ", waiting for " + text().peer(spec.root) +
                                     " to say whether it has all messages with " + tag;
    } else {
      const auto peers = waits_for(*running);
      if (!peers.empty()) cause += ", waiting for " + text().peers(peers);
      if (running->entry.is_collective()) cause += describe_roll(roll_call_);
      cause += "; " + describe_progress(*running);
    }
  }
  fail_because(Status(StatusCode::kTimeout, cause), running);
}

void Group::fail(StatusCode code, const std::string& cause) {
  fail_because(Status(code, cause), nullptr);
}

void Group::fail_because(const Status& why, const Running* running) {
  end_failed(failure_.fail(why, running == nullptr ? std::string() : describe(*running)));
}

void Group::abort(const Status& why) { end_failed(failure_.abort(why)); }

void Group::on_notice(const AbortNotice& notice) {
  const Rank reporter = notice.report.reporter().value();
  if (!status().ok() || reporter == spec_.rank || reporter >= context_.ranks) return;
  fail_because(notice.report, operations_.find(0));
  failure_.spare_notices();
}

// `told` is what the other ranks are told; ok if the group had failed before.
void Group::end_failed(const Status& told) {
  if (told.ok()) return;
  ROCECOLL_CHECK(messenger_.has_value());
  try {
    messenger_->fail(told);
  } catch (const CheckFailure& failure) {
    // Waiters must wake all the same; the first cause stays in front.
    failure_.add(failure.what());
  }
  complete_all();
}

void Group::complete_all() {
  any_source_.clear();
  held_sends_.clear();
  for (Entry& entry : operations_.take_all()) complete(std::move(entry.operation), status());
}

void Group::leave() {
  const Running* running = operations_.find(0);
  failure_.leave(running == nullptr ? std::string() : describe(*running));
  // Links deliver what they were given before they close.
  for (const uint32_t index : std::exchange(operations_.leaving(), {})) release(index);
  messenger_.reset();
  complete_all();
}

}  // namespace rocecoll
