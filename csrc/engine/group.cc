// SPDX-License-Identifier: Apache-2.0
#include "engine/group.h"

#include <algorithm>
#include <utility>

#include "engine/fingerprint.h"
#include "engine/operation_check.h"

namespace rocecoll {
namespace {

// An abort notice is sent this often, this far apart: at 10 % loss one of a thousand ranks misses
// all three and learns from a closing link or its own deadline.
constexpr int kFloods = 3;
constexpr Duration kFloodInterval = std::chrono::milliseconds(10);

// The tag of a receive from any source until its source is known.
constexpr uint64_t kNoTag = UINT64_MAX;

Instant After(Instant now, Duration duration) {
  return duration >= kNever - now ? kNever : now + duration;
}

}  // namespace

Group::Group(Transport& transport, ScratchPool& scratch, const EngineOptions& options,
             GroupSpec spec, std::vector<OperationPtr>& completed)
    : transport_(transport),
      options_(options),
      spec_(std::move(spec)),
      completed_(completed),
      messenger_(std::in_place, transport, spec_.key_high, spec_.key_low, spec_.rank,
                 spec_.addresses, spec_.messenger),
      context_{*messenger_, scratch, spec_.rank, static_cast<uint32_t>(spec_.addresses.size()),
               options.max_lanes_in_flight},
      any_source_(*messenger_, numbers_, context_.ranks, spec_.rank) {}

Group::~Group() {
  messenger_.reset();  // before the memory that is lent to it
  for (auto& running : running_) running->execution.end();
}

uint64_t Group::next_tag(const OperationSpec& spec) {
  if (spec.any_source) return kNoTag;
  switch (spec.collective) {
    case Collective::kSend:
      return numbers_.take_send(spec.root, spec.user_tag);
    case Collective::kRecv:
      any_source_.look_again();
      return numbers_.take_receive(spec.root, spec.user_tag);
    default:
      return last_sequence_;
  }
}

Status Group::check(const OperationSpec& spec) const {
  return status_.ok() ? CheckOperation(spec, spec_.rank, context_.ranks) : status_;
}

Status Group::submit(Instant now, OperationPtr operation) {
  const OperationSpec& spec = operation->spec();
  if (Status status = check(spec); !status.ok()) return status;
  if (pending_ >= options_.max_pending_operations) {
    return Status(StatusCode::kUnsupported, "rocecoll: group \"" + spec_.name + "\" has " +
                                                std::to_string(pending_) +
                                                " operations pending; wait for some first");
  }
  // From any source: for now, some other rank's.
  const Rank root = spec.any_source ? (spec_.rank == 0 ? 1 : 0) : spec.root;
  auto plan = MakePlan(spec, root, context_.ranks, options_);
  if (!plan.ok()) return plan.status();
  const bool collective = !IsPointToPoint(spec.collective);
  operation->source_ = root;
  operation->sequence_ = collective ? ++last_sequence_ : ++last_point_to_point_;
  Entry entry;
  entry.plan = plan.take();
  entry.fingerprint = MakeFingerprint(spec, entry.plan, operation->sequence_);
  entry.tag_operation = next_tag(spec);
  entry.order = ++last_order_;
  entry.deadline = After(now, spec.timeout > Duration{0} ? spec.timeout : spec_.timeout);
  entry.operation = std::move(operation);
  earliest_deadline_ = std::min(earliest_deadline_, entry.deadline);
  ++pending_;
  if (collective) {
    queue_.push_back(std::move(entry));
    admit(now);
    return {};
  }
  const uint32_t user_tag = spec.user_tag;
  const bool any_source = spec.any_source;
  const uint32_t index = place(std::move(entry));
  if (any_source) {
    any_source_.add(now, index, user_tag);
  } else {
    begin(now, index);
  }
  return {};
}

bool Group::admit(Instant now) {
  bool admitted = false;
  while (!queue_.empty() && collectives_.size() < std::max(options_.max_operations_in_flight, 1u)) {
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    begin(now, place(std::move(entry)));
    admitted = true;
  }
  return admitted;
}

uint32_t Group::place(Entry entry) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(running_.size()));
    running_.push_back(std::make_unique<Running>(context_));
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  running_[index]->entry = std::move(entry);
  return index;
}

void Group::begin(Instant now, uint32_t index) {
  Running& running = *running_[index];
  if (is_collective(running.entry)) collectives_.push_back(index);
  if (running.entry.operation->spec().staged != nullptr) staged_.push_back(index);
  running.execution.begin(running.entry.operation->spec(), std::move(running.entry.plan),
                          running.entry.fingerprint, running.entry.tag_operation,
                          uint64_t{index} << 32);
  running.execution.start_lanes(now);
  if (running.execution.done()) finish(index);
}

// Receives from any source become receives from the rank whose message came first.
bool Group::bind_any_source(Instant now) {
  bool bound = false;
  while (const auto match = any_source_.match()) {
    bound = true;
    Entry& entry = running_[match->index]->entry;
    const OperationSpec& spec = entry.operation->spec();
    entry.operation->source_ = match->source;
    entry.tag_operation = numbers_.take_receive(match->source, spec.user_tag);
    auto plan = MakePlan(spec, match->source, context_.ranks, options_);
    ROCECOLL_CHECK(plan.ok());  // as it was for another rank
    entry.plan = plan.take();
    begin(now, match->index);
  }
  return bound;
}

void Group::finish(uint32_t index) {
  Running& running = *running_[index];
  running.execution.end();
  if (is_collective(running.entry)) std::erase(collectives_, index);
  if (!staged_.empty()) std::erase(staged_, index);
  OperationPtr operation = std::move(running.entry.operation);
  running.entry = {};
  free_.push_back(index);
  complete(std::move(operation), Status());
}

void Group::complete(OperationPtr operation, const Status& status) {
  operation->status_ = status;
  completed_.push_back(std::move(operation));
  --pending_;
}

bool Group::on_event(Instant now, const Event& event) {
  return messenger_.has_value() && messenger_->on_event(now, event);
}

void Group::on_incoming(Instant now, Rank peer) {
  if (status_.ok() && peer < context_.ranks && peer != spec_.rank) messenger_->accept(now, peer);
}

bool Group::step(Instant now) {
  if (!status_.ok()) return flood(now);
  messenger_->flush(now);
  bool moved = any_source_.used() && bind_any_source(now);
  MessageCompletion completion;
  while (messenger_->poll(completion)) {
    moved = true;
    const auto index = static_cast<uint32_t>(completion.token >> 32);
    ROCECOLL_CHECK(index < running_.size() && running_[index]->entry.operation != nullptr);
    Execution& execution = running_[index]->execution;
    execution.on_message_complete(now, static_cast<uint32_t>(completion.token));
    if (execution.done()) finish(index);
  }
  if (messenger_->failure() != nullptr) {
    fail_from_messenger();
    return true;
  }
  if (any_source_.used() && fail_from_any_source()) return true;
  if (start_lanes(now, collectives_)) moved = true;  // scratch may have become free
  if (!staged_.empty()) {
    if (start_lanes(now, staged_)) moved = true;  // input may have come
    if (fail_from_staging()) return true;
  }
  if (admit(now)) moved = true;
  if (now >= earliest_deadline_) check_deadlines(now);
  return moved || !status_.ok();
}

// Of running operations, while `indices` loses those that end.
bool Group::start_lanes(Instant now, const std::vector<uint32_t>& indices) {
  bool started = false;
  for (size_t i = 0; i < indices.size();) {
    const uint32_t index = indices[i];
    Execution& execution = running_[index]->execution;
    if (execution.lanes_waiting() && execution.start_lanes(now)) started = true;
    if (execution.done()) {
      finish(index);
    } else {
      ++i;
    }
  }
  return started;
}

void Group::check_deadlines(Instant now) {
  earliest_deadline_ = kNever;
  for (const auto& running : running_) {
    if (running->entry.operation == nullptr) continue;
    earliest_deadline_ = std::min(earliest_deadline_, running->entry.deadline);
  }
  for (const Entry& entry : queue_) {
    earliest_deadline_ = std::min(earliest_deadline_, entry.deadline);
  }
  if (now >= earliest_deadline_) fail_from_deadline(now);
}

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
  return text().operation(running.entry.fingerprint, running.entry.operation->sequence());
}

void Group::fail_from_messenger() {
  const MessengerFailure failure = *messenger_->failure();
  fail_from_link(failure, find(failure.tag.operation));
}

void Group::fail_from_link(const MessengerFailure& failure, const Running* running) {
  StatusCode code = failure.status.code();
  // A closing link carries no code, only what its rank reports.
  if (code == StatusCode::kAborted) code = ReportedCode(failure.status.message());
  fail_because(code, running, text().link_cause(failure));
}

// A receive from any source may be waiting for any rank that is gone.
bool Group::fail_from_any_source() {
  if (numbers_.overflowed()) {
    fail(StatusCode::kNetwork, "more messages were announced than any rank may have pending");
    return true;
  }
  if (any_source_.empty()) return false;
  const Running* oldest = running_[any_source_.oldest()].get();
  if (const MessengerFailure* lost = messenger_->lost()) {
    fail_from_link(MessengerFailure(*lost), oldest);
    return true;
  }
  if (messenger_->peers_left() + 1 < context_.ranks) return false;
  fail_because(StatusCode::kPeerLeft, oldest, "every other rank has left the group");
  return true;
}

bool Group::fail_from_staging() {
  for (const uint32_t index : staged_) {
    const Status& status = running_[index]->execution.staging_status();
    if (status.ok()) continue;
    fail_because(status.code(), running_[index].get(),
                 "moving data to or from the device of " + text().peer(spec_.rank) +
                     " failed: " + status.message());
    return true;
  }
  return false;
}

// Names the oldest running operation: a later one, or one still queued, waits for it.
void Group::fail_from_deadline(Instant now) {
  const Running* running = find(0);
  std::string cause = "timed out";
  if (running != nullptr) {
    const Duration timeout = running->entry.operation->spec().timeout;
    cause = now < running->entry.deadline
                ? "an operation behind it timed out"
                : "timed out after " +
                      DescribeDuration(timeout > Duration{0} ? timeout : spec_.timeout);
    if (running->entry.tag_operation == kNoTag) {
      cause += ", waiting for a message with tag " +
               std::to_string(running->entry.operation->spec().user_tag) + " from any rank";
    } else {
      const auto peers = messenger_->waiting_for(Tag{running->entry.tag_operation, 0, 0});
      if (!peers.empty()) cause += ", waiting for " + text().peers(peers);
      cause += "; " + running->execution.describe_progress();
    }
  }
  fail_because(StatusCode::kTimeout, running, cause);
}

void Group::fail(StatusCode code, const std::string& cause) { fail_because(code, nullptr, cause); }

// Another rank's report goes on as it came, without this rank's operation before it.
void Group::fail_because(StatusCode code, const Running* running, const std::string& cause) {
  const std::string whole = running == nullptr ? cause : describe(*running) + ": " + cause;
  const std::string told = IsReport(cause) ? cause : text().report(code, whole);
  fail_with(Status(code, text().message(code, whole)), Status(code, told));
}

void Group::abort(const Status& why) {
  const std::string cause = why.message().empty() ? "aborted" : why.message();
  fail_with(Status(why.code(), cause), Status(why.code(), text().report(why.code(), cause)));
}

void Group::on_notice(const AbortNotice& notice) {
  if (!status_.ok() || notice.reporter == spec_.rank || notice.reporter >= context_.ranks) return;
  const bool report = IsReport(notice.cause);
  fail_because(notice.code, find(0),
               report ? notice.cause : text().peer(notice.reporter) + ": " + notice.cause);
  floods_left_ = 0;  // whoever saw it first has told everyone
}

void Group::fail_with(Status shown, const Status& told) {
  if (!status_.ok()) return;
  ROCECOLL_CHECK(!shown.ok() && messenger_.has_value());
  notice_ =
      EncodeAbortNotice({spec_.key_high, spec_.key_low, spec_.rank, told.code(), told.message()},
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
  }
  for (Entry& entry : queue_) entries.push_back(std::move(entry));
  queue_.clear();
  collectives_.clear();
  staged_.clear();
  any_source_.clear();
  earliest_deadline_ = kNever;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.order < b.order; });
  for (Entry& entry : entries) complete(std::move(entry.operation), status);
}

void Group::leave() {
  while (floods_left_ > 0) flood_once();
  if (status_.ok()) {
    const Running* running = find(0);
    status_ = Status(StatusCode::kAborted,
                     "rocecoll: group \"" + spec_.name +
                         "\": " + (running == nullptr ? "" : describe(*running) + ": ") +
                         "this rank ended the group before the operation was done; wait for every "
                         "operation first");
  }
  messenger_.reset();
  complete_all(status_);
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

Instant Group::next_deadline() const {
  if (!status_.ok()) return floods_left_ > 0 ? next_flood_ : kNever;
  Instant next = std::min(earliest_deadline_, messenger_->next_deadline());
  for (const uint32_t index : staged_) {
    next = std::min(next, running_[index]->execution.next_deadline());
  }
  return next;
}

}  // namespace rocecoll
