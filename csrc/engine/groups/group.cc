// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/group.h"

#include <algorithm>
#include <utility>

#include "base/named_status.h"
#include "engine/operations/fingerprint.h"

namespace rocecoll {
namespace {

HostLayout HostsOf(const GroupSpec& spec) {
  if (!spec.hosts.empty()) return HostLayout(spec.hosts);
  return HostLayout(std::vector<uint32_t>(spec.addresses.size()));
}

}  // namespace

Group::Group(Transport& transport, ScratchPool& scratch, const EngineOptions& options,
             GroupSpec spec, std::vector<OperationPtr>& completed)
    : transport_(transport),
      options_(options),
      spec_(std::move(spec)),
      hosts_(HostsOf(spec_)),
      completed_(completed),
      messenger_(std::in_place, transport, spec_.key, spec_.rank, spec_.addresses, spec_.messenger),
      context_{*messenger_,
               scratch,
               transport.memory(),
               spec_.rank,
               static_cast<uint32_t>(spec_.addresses.size()),
               std::min(options.max_lanes_in_flight, messenger_->limits().messages_in_flight)},
      failure_(transport, spec_),
      operations_(context_),
      last_sequence_(options.first_number),
      numbers_(static_cast<uint32_t>(options.first_number)),
      any_source_(*messenger_, numbers_, context_.ranks, spec_.rank),
      retirement_(*messenger_, numbers_, options.max_idle_tag_runs),
      watch_(spec_) {}

Group::~Group() {
  messenger_.reset();  // before the memory that is lent to it
  operations_.take_all();
}

uint64_t Group::next_tag(const OperationSpec& spec) {
  if (spec.any_source) return PendingOperations::kNoTag;
  switch (spec.collective) {
    case Collective::kSend: {
      if (retirement_.holds(spec.root, spec.user_tag)) return PendingOperations::kNoTag;
      const uint64_t tag = numbers_.take_send(spec.root, spec.user_tag);
      retirement_.on_send(spec.root);
      return tag;
    }
    case Collective::kRecv:
      any_source_.look_again();
      return numbers_.take_receive(spec.root, spec.user_tag);
    default:
      return last_sequence_;
  }
}

Status Group::check(const OperationSpec& spec) const {
  return status().ok() ? CheckOperation(spec, spec_.rank, context_.ranks) : status();
}

Status Group::submit(Instant now, OperationPtr operation) {
  const OperationSpec& spec = operation->spec();
  if (Status status = check(spec); !status.ok()) return status;
  if (pending_ >= options_.max_pending_operations) {
    return NamedStatus(StatusCode::kUnsupported, "group \"" + spec_.name + "\" has " +
                                                     std::to_string(pending_) +
                                                     " operations pending; wait for some first");
  }
  // For a receive from any source, some other rank stands in until the source is known.
  const Rank root = spec.any_source ? (spec_.rank == 0 ? 1 : 0) : spec.root;
  auto plan = MakePlan(spec, root, hosts_, messenger_->eager_limit(), options_);
  if (!plan.ok()) return plan.status();
  const bool collective = !IsPointToPoint(spec.collective);
  operation->set_source(root);
  operation->set_sequence(collective ? ++last_sequence_ : ++last_point_to_point_);
  Entry entry;
  entry.plan = plan.take();
  entry.fingerprint = MakeFingerprint(spec, entry.plan, operation->sequence());
  entry.tag_operation = next_tag(spec);
  entry.order = ++last_order_;
  entry.submitted = now;
  watch_.begin(now);
  entry.deadline = After(now, spec.timeout > Duration{0} ? spec.timeout : spec_.timeout);
  entry.operation = std::move(operation);
  ++pending_;
  if (collective) {
    if (operations_.queue().empty() && may_admit(entry)) {
      begin(now, operations_.place(std::move(entry)));
    } else {
      operations_.enqueue(std::move(entry));
    }
    return {};
  }
  const uint32_t user_tag = spec.user_tag;
  const bool any_source = spec.any_source;
  const bool held = !any_source && !entry.has_tag();
  const uint32_t index = operations_.place(std::move(entry));
  if (any_source) {
    any_source_.add(now, index, user_tag);
  } else if (held) {
    held_sends_.push_back(index);
  } else {
    begin(now, index);
  }
  return {};
}

// In order. A rank that has passed a barrier finds the results of everything called before it, on
// every rank.
bool Group::may_admit(const Entry& entry) const {
  const std::vector<uint32_t>& collectives = operations_.collectives();
  if (collectives.size() >= std::max(options_.max_operations_in_flight, 1u)) return false;
  const Gate* gate = entry.operation->spec().gate.get();
  if (gate != nullptr && !gate->is_open()) return false;
  return !entry.is_barrier() || std::ranges::all_of(collectives, [this](uint32_t index) {
    return operations_.at(index).entry.is_barrier();
  });
}

bool Group::admit(Instant now) {
  bool admitted = false;
  auto& queue = operations_.queue();
  while (!queue.empty() && may_admit(queue.front())) {
    Entry entry = std::move(queue.front());
    queue.pop_front();
    begin(now, operations_.place(std::move(entry)));
    admitted = true;
  }
  return admitted;
}

void Group::begin(Instant now, uint32_t index) {
  Running& running = operations_.at(index);
  operations_.begun(index);
  running.execution.begin(running.entry.spec(), std::move(running.entry.plan),
                          running.entry.fingerprint, running.entry.tag_operation, index);
  running.execution.start_lanes(now);
  if (running.execution.done()) finish(index);
}

// Receives from any source become receives from the rank whose message came first.
bool Group::bind_any_source(Instant now) {
  bool bound = false;
  while (const auto match = any_source_.match()) {
    bound = true;
    Entry& entry = operations_.at(match->index).entry;
    const OperationSpec& spec = entry.spec();
    entry.operation->set_source(match->source);
    entry.tag_operation = numbers_.take_receive(match->source, spec.user_tag);
    auto plan = MakePlan(spec, match->source, hosts_, messenger_->eager_limit(), options_);
    ROCECOLL_CHECK(plan.ok());  // as it was for another rank
    entry.plan = plan.take();
    begin(now, match->index);
  }
  return bound;
}

bool Group::retire_tags(Instant now) {
  if (!retirement_.step([this](Rank peer, bool sends) { return open_tags(peer, sends); })) {
    return false;
  }
  // In the order of posting, also among equal tags.
  for (const uint32_t index : std::exchange(held_sends_, {})) {
    Entry& entry = operations_.at(index).entry;
    entry.tag_operation = next_tag(entry.spec());
    if (entry.has_tag()) {
      begin(now, index);
    } else {
      held_sends_.push_back(index);
    }
  }
  return true;
}

std::vector<uint32_t> Group::open_tags(Rank peer, bool sends) const {
  std::vector<uint32_t> tags;
  const Collective kind = sends ? Collective::kSend : Collective::kRecv;
  for (const auto& running : operations_.running()) {
    const Entry& entry = running->entry;
    if (entry.spec().collective != kind || !entry.has_tag()) continue;
    if (entry.operation->source() != peer) continue;
    if (running->done) continue;  // the link has the message, before everything that is sent now
    tags.push_back(entry.spec().user_tag);
  }
  std::ranges::sort(tags);
  return tags;
}

void Group::finish(uint32_t index) {
  operations_.ended(index);
  Running& running = operations_.at(index);
  if (all_left(running)) {
    release(index);
  } else {
    running.done = true;
    operations_.leaving().push_back(index);
  }
}

void Group::note_leaving(const Messenger& messenger, const MessageCompletion& sent,
                         Running& running) {
  constexpr size_t kMany = 32;
  if (running.leaving.size() >= kMany) {
    std::erase_if(running.leaving,
                  [&](const MessageCompletion& of) { return messenger.has_left(of.to, of.frame); });
  }
  running.leaving.push_back(sent);
}

bool Group::all_left(Running& running) const {
  std::erase_if(running.leaving, [this](const MessageCompletion& sent) {
    return messenger_->has_left(sent.to, sent.frame);
  });
  return running.leaving.empty();
}

bool Group::complete_left() {
  const auto left = [this](uint32_t index) {
    if (!all_left(operations_.at(index))) return false;
    release(index);
    return true;
  };
  return std::erase_if(operations_.leaving(), left) > 0;
}

void Group::release(uint32_t index) {
  Entry entry = operations_.take(index);
  if (entry.is_collective()) {
    last_done_ = entry.fingerprint;
    last_done_sequence_ = entry.operation->sequence();
  }
  complete(std::move(entry.operation), Status());
}

void Group::complete(OperationPtr operation, const Status& status) {
  operation->set_status(status);
  completed_.push_back(std::move(operation));
  if (--pending_ == 0) watch_.rest();
}

bool Group::on_event(Instant now, const Event& event) {
  return messenger_.has_value() && messenger_->on_event(now, event);
}

void Group::on_incoming(Instant now, Rank peer) {
  if (peer >= context_.ranks || peer == spec_.rank) return;
  if (status().ok()) {
    messenger_->accept(now, peer);
  } else {
    failure_.tell(peer);
  }
}

bool Group::step(Instant now) {
  if (!status().ok()) return failure_.step(now);
  messenger_->flush(now);
  bool moved = any_source_.used() && bind_any_source(now);
  if (complete_left()) moved = true;
  MessageCompletion completion;
  while (messenger_->poll(completion)) {
    moved = true;
    const MessageToken token = MessageToken::Of(completion.token);
    Running& running = operations_.at(token.operation);
    if (completion.frame > 0) note_leaving(*messenger_, completion, running);
    running.execution.on_message_complete(now, token);
    if (running.execution.done()) finish(token.operation);
  }
  if (messenger_->failure() != nullptr) {
    fail_from_messenger();
    return true;
  }
  if (!messenger_->lost().empty() && fail_from_lost()) return true;
  if (retire_tags(now)) moved = true;
  if (!retirement_.offence().empty()) {
    fail(StatusCode::kNetwork, text().peer(retirement_.offender()) + " " + retirement_.offence());
    return true;
  }
  if (any_source_.used() && fail_from_any_source()) return true;
  if (start_lanes(now, operations_.collectives())) moved = true;  // scratch may have become free
  if (!operations_.staged().empty()) {
    if (start_lanes(now, operations_.staged())) moved = true;  // input may have come
    if (fail_from_staging()) return true;
  }
  if (admit(now)) moved = true;
  if (now >= next_timeout()) check_deadlines(now);
  if (now >= watch_.next_look() && status().ok()) look_at_waits(now);
  return moved || !status().ok();
}

// Starts lanes of running operations. `indices` loses those that end meanwhile.
bool Group::start_lanes(Instant now, const std::vector<uint32_t>& indices) {
  bool started = false;
  for (size_t i = 0; i < indices.size();) {
    const uint32_t index = indices[i];
    Execution& execution = operations_.at(index).execution;
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
  if (now >= operations_.find_earliest_deadline()) {
    fail_from_deadline(now);
  } else {
    roll_call_.end();  // what was late has been done after all
  }
}

void Group::on_pause(Duration length) {
  operations_.on_pause(length);
  if (roll_call_.active()) roll_call_.on_pause(length);
}

std::vector<PeerStats> Group::peer_stats(Instant now) const {
  std::vector<PeerStats> peers;
  if (!messenger_) return peers;
  for (LinkedRank& linked : messenger_->linked()) {
    PeerStats& peer = peers.emplace_back();
    peer.group = spec_.name;
    peer.rank = spec_.global_rank(linked.rank);
    peer.address = text().address(linked.rank);
    if (linked.contact && linked.contact->ever_heard) peer.age = now - linked.contact->heard_at;
    peer.paths = std::move(linked.paths);
  }
  return peers;
}

Instant Group::next_deadline() const {
  if (!status().ok()) return failure_.next_deadline();
  Instant next = std::min({next_timeout(), messenger_->next_deadline(), watch_.next_look()});
  for (const uint32_t index : operations_.staged()) {
    next = std::min(next, operations_.at(index).execution.next_deadline());
  }
  return next;
}

}  // namespace rocecoll
