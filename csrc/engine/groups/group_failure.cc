// SPDX-License-Identifier: Apache-2.0
// What a group tells while its operations wait, and how it fails: what its ranks are told, and who
// is named.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/named_status.h"
#include "engine/groups/group.h"
#include "engine/operations/needs.h"

namespace rocecoll {
namespace {

// An abort notice is sent this often, this far apart: at 10 % loss one of a thousand ranks misses
// all three and learns from a closing link or its own deadline.
constexpr int kFloods = 3;
constexpr Duration kFloodInterval = std::chrono::milliseconds(10);

// Of a link that went down: no more than that its rank has ended, perhaps after all its work. Else
// the rank has given the group up, or the two cannot talk.
bool IsGone(const Status& down) {
  const StatusCode code = down.code();
  return !down.reporter() && (code == StatusCode::kPeerLost || code == StatusCode::kNoContact);
}

}  // namespace

const Group::Running* Group::find(uint64_t tag_operation) const {
  const Running* oldest = nullptr;
  for (const auto& running : running_) {
    if (running->entry.operation == nullptr) continue;
    if (running->entry.tag_operation == tag_operation) return running.get();
    if (oldest == nullptr || running->entry.order < oldest->entry.order) oldest = running.get();
  }
  return oldest;
}

std::string Group::describe(const Running& running) const {
  const Operation& operation = *running.entry.operation;
  if (!is_collective(running.entry)) {
    return text().message_call(operation.spec(), operation.sequence());
  }
  return text().operation(running.entry.fingerprint, operation.sequence());
}

std::string Group::describe_progress(const Running& running) const {
  if (!running.done) return running.execution.describe_progress();
  return "done here, but what this rank sent has yet to be taken";
}

std::vector<Rank> Group::waits_for(const Running& running) const {
  std::vector<Rank> ranks = messenger_->waiting_for(Tag{running.entry.tag_operation, 0, 0});
  for (const MessageCompletion& sent : running.leaving) {
    if (!messenger_->has_left(sent.to, sent.frame)) ranks.push_back(sent.to);
  }
  std::ranges::sort(ranks);
  ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
  return ranks;
}

void Group::fail_from_messenger() {
  const MessengerFailure failure = *messenger_->failure();
  fail_from_link(failure, find(failure.tag.operation));
}

void Group::fail_from_link(const MessengerFailure& failure, const Running* running) {
  if (failure.status.reporter()) {
    fail_because(failure.status, running);
    return;
  }
  const std::string cause = text().link_cause(failure, watch_.first_missed(failure.peer));
  fail_because(Status(failure.status.code(), cause), running);
}

// A rank that is gone ends the group once an operation needs it: one that has yet to send to it or
// to receive from it, or from any rank. Whoever has all that it wants of that rank goes on, as a
// program may end right after its last operation.
bool Group::fail_from_lost() {
  const std::vector<MessengerFailure>& lost = messenger_->lost();
  if (lost_seen_ == lost.size() && order_seen_ == last_order_) return false;
  for (; lost_seen_ < lost.size(); ++lost_seen_) {
    const MessengerFailure& failure = lost[lost_seen_];
    if (!IsGone(failure.status)) {
      fail_from_link(MessengerFailure(failure), find(0));
      return true;
    }
    Log(Severity::kInfo, "group \"" + spec_.name + "\": " +
                             text().link_cause(failure, watch_.first_missed(failure.peer)) +
                             "; operations that need it fail");
  }
  order_seen_ = last_order_;
  for (const MessengerFailure& failure : lost) {
    for (const auto& running : running_) {
      if (running->entry.operation == nullptr || !needs(*running, failure.peer)) continue;
      fail_from_link(MessengerFailure(failure), running.get());
      return true;
    }
    const auto needed = [&](const Entry& entry) {
      return LanesNeedPeer(entry.plan, spec_.rank, failure.peer, entry.tag_operation, 0,
                           *messenger_);
    };
    if (std::ranges::any_of(queue_, needed)) {
      fail_from_link(MessengerFailure(failure), find(0));
      return true;
    }
  }
  return false;
}

// Beside what is posted, on which the link itself reports.
bool Group::needs(const Running& running, Rank peer) const {
  if (is_collective(running.entry)) return running.execution.needs(peer);
  const OperationSpec& spec = running.entry.operation->spec();
  return running.entry.tag_operation == kNoTag && (spec.any_source || spec.root == peer);
}

// A receive from any source may be waiting for any rank that is gone.
bool Group::fail_from_any_source() {
  if (numbers_.overflowed()) {
    fail(StatusCode::kNetwork, "more messages were announced than any rank may have pending");
    return true;
  }
  if (any_source_.empty()) return false;
  const Running* oldest = running_[any_source_.oldest()].get();
  if (messenger_->peers_left() + 1 < context_.ranks) return false;
  std::vector<Rank> others(context_.ranks);
  std::iota(others.begin(), others.end(), Rank{0});
  std::erase(others, spec_.rank);
  fail_because(Status(StatusCode::kPeerLeft,
                      "every other rank has left the group: " + text().peers(others) +
                          "; see their own logs first: they may have raised an exception"),
               oldest);
  return true;
}

bool Group::fail_from_staging() {
  for (const uint32_t index : staged_) {
    const Status& status = running_[index]->execution.staging_status();
    if (status.ok()) continue;
    fail_because(
        Status(status.code(), "moving data to or from the device of " + text().peer(spec_.rank) +
                                  " failed: " + status.message()),
        running_[index].get());
    return true;
  }
  return false;
}

// The oldest running operation that is late; if only a queued one is, what it waits for: a
// collective, or, behind a gate, the messages that are to open it.
const Group::Running* Group::find_late(Instant now) const {
  const Running* late = collectives_.empty() ? find(0) : running_[collectives_.front()].get();
  bool found = false;
  for (const auto& running : running_) {
    if (running->entry.operation == nullptr || now < running->entry.deadline) continue;
    if (!found || running->entry.order < late->entry.order) late = running.get();
    found = true;
  }
  return late;
}

// Of a late collective the other ranks are asked first whether they have called it: those that this
// rank waits for may wait themselves. True once there is nothing to wait for.
bool Group::call_the_roll(Instant now, const Running* late, RollCall& roll) {
  if (late == nullptr || !is_collective(late->entry)) return true;
  const uint64_t sequence = late->entry.operation->sequence();
  if (!roll.asks_for(sequence)) roll.begin(now, sequence, context_.ranks, spec_.rank);
  if (roll.over(now)) return true;
  const auto question =
      Encode(RollCallNotice{spec_.key, spec_.rank, RollCallNotice::Kind::kQuestion, sequence});
  roll.ask(now, [&](Rank rank) { transport_.notify(spec_.addresses[rank], question); });
  return false;
}

void Group::on_notice(const RollCallNotice& notice) {
  if (!status_.ok() || notice.from == spec_.rank || notice.from >= context_.ranks) return;
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

// It had no link that could have closed: it comes to those who open one.
void Group::on_notice(const LeftNotice& notice) {
  if (!status_.ok() || notice.from == spec_.rank || notice.from >= context_.ranks) return;
  messenger_->on_left(notice.from);
}

std::string Group::describe_roll(const RollCall& roll) const {
  const auto absent = roll.absent();
  const auto silent = roll.silent();
  std::string said;
  if (!absent.empty()) said += "; not called by " + text().peers(absent);
  if (!silent.empty()) said += "; no answer from " + text().peers(silent);
  return said.empty() ? "; called by every rank" : said;
}

void Group::look_at_waits(Instant now) {
  const Running* oldest = find(0);
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

// Ranks that this one waits for may wait themselves: all are asked whether they have called it.
void Group::tell_of_long_wait(Instant now, const Running& oldest,
                              const std::vector<AwaitedRank>& awaited) {
  if (!call_the_roll(now, &oldest, watch_roll_)) {
    watch_.look_again(std::max(now, watch_roll_.next_look()));
    return;
  }
  std::string text = "group \"" + spec_.name + "\": " + describe(oldest) + " has waited " +
                     DescribeDuration(now - oldest.entry.submitted);
  if (!awaited.empty()) text += " for " + DescribeContacts(spec_, now, awaited);
  if (is_collective(oldest.entry)) text += describe_roll(watch_roll_);
  if (oldest.entry.tag_operation != kNoTag) text += "; " + describe_progress(oldest);
  Log(Severity::kWarning, std::move(text));
  watch_.reported(now, oldest.entry.submitted);
  watch_roll_.end();
}

void Group::fail_from_deadline(Instant now) {
  const Running* running = find_late(now);
  if (!call_the_roll(now, running, roll_call_)) return;
  std::string cause = "timed out";
  if (running != nullptr) {
    const OperationSpec& spec = running->entry.operation->spec();
    cause = now < running->entry.deadline
                ? "an operation behind it timed out"
                : "timed out after " +
                      DescribeDuration(spec.timeout > Duration{0} ? spec.timeout : spec_.timeout);
    if (running->entry.tag_operation == kNoTag) {
      const std::string tag = "tag " + std::to_string(spec.user_tag);
      cause += spec.any_source ? ", waiting for a message with " + tag + " from any rank"
                               : ", waiting for " + text().peer(spec.root) +
                                     " to say whether it has all messages with " + tag;
    } else {
      const auto peers = waits_for(*running);
      if (!peers.empty()) cause += ", waiting for " + text().peers(peers);
      if (is_collective(running->entry)) cause += describe_roll(roll_call_);
      cause += "; " + describe_progress(*running);
    }
  }
  fail_because(Status(StatusCode::kTimeout, cause), running);
}

void Group::fail(StatusCode code, const std::string& cause) {
  fail_because(Status(code, cause), nullptr);
}

// Another rank's report goes on as it came, without this rank's operation before it.
void Group::fail_because(const Status& why, const Running* running) {
  const std::string cause = why.reporter() ? text().report(why) : why.message();
  const std::string whole = running == nullptr ? cause : describe(*running) + ": " + cause;
  fail_with(Status(why.code(), text().message(why.code(), whole)),
            why.reporter() ? why : Status(why.code(), whole));
}

void Group::abort(const Status& why) {
  const Status reason = why.message().empty() ? Status(why.code(), "aborted") : why;
  fail_with(reason, reason);
}

void Group::on_notice(const AbortNotice& notice) {
  const Rank reporter = notice.report.reporter().value();
  if (!status_.ok() || reporter == spec_.rank || reporter >= context_.ranks) return;
  fail_because(notice.report, find(0));
  floods_left_ = 0;  // whoever saw it first has told everyone
}

// `report` goes to the other ranks: as this rank's, unless it is another one's.
void Group::fail_with(Status shown, const Status& report) {
  if (!status_.ok()) return;
  ROCECOLL_CHECK(!shown.ok() && messenger_.has_value());
  const Status told = report.reported_by(spec_.rank);
  notice_ = Encode(AbortNotice{spec_.key, told},
                   std::min(Transport::kMaxNoticeBytes, transport_.limits().max_frame_bytes));
  floods_left_ = kFloods;
  next_flood_ = Instant::min();
  status_ = shown;
  try {
    messenger_->fail(told);
  } catch (const CheckFailure& failure) {
    // Waiters must wake even so; what the first cause was stays in front.
    status_ = Status(shown.code(), shown.message() + "; and then " + failure.what());
  }
  complete_all(status_);
}

void Group::complete_all(const Status& status) {
  std::vector<Entry> entries;
  for (const auto& running : running_) {
    if (running->entry.operation == nullptr) continue;
    running->execution.end();
    entries.push_back(std::move(running->entry));
    running->entry = {};
    running->leaving.clear();
    running->done = false;
  }
  for (Entry& entry : queue_) entries.push_back(std::move(entry));
  queue_.clear();
  collectives_.clear();
  leaving_.clear();
  staged_.clear();
  any_source_.clear();
  held_sends_.clear();
  earliest_deadline_ = kNever;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.order < b.order; });
  for (Entry& entry : entries) complete(std::move(entry.operation), status);
}

void Group::leave() {
  while (floods_left_ > 0) flood_once();
  if (status_.ok()) {
    const Running* running = find(0);
    status_ = NamedStatus(
        StatusCode::kAborted,
        "group \"" + spec_.name + "\": " + (running == nullptr ? "" : describe(*running) + ": ") +
            "this rank ended the group before the operation was done; wait for every "
            "operation first");
  }
  // Their links deliver what they were given before they close.
  for (const uint32_t index : std::exchange(leaving_, {})) release(index);
  messenger_.reset();
  complete_all(status_);
}

PartingWord Group::parting_word() const {
  return {spec_.addresses, notice_.empty() ? Encode(LeftNotice{spec_.key, spec_.rank}) : notice_};
}

bool Group::flood(Instant now) {
  if (floods_left_ == 0 || now < next_flood_) return false;
  flood_once();
  next_flood_ = now + kFloodInterval;
  return true;
}

void Group::flood_once() {
  --floods_left_;
  for (Rank rank = 0; rank < context_.ranks; ++rank) {
    if (rank != spec_.rank) transport_.notify(spec_.addresses[rank], notice_);
  }
}

}  // namespace rocecoll
