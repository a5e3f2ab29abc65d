// SPDX-License-Identifier: Apache-2.0
// What a group says about itself and its operations.
#include "engine/groups/group_state.h"

#include <algorithm>

#include "engine/groups/group.h"

namespace rocecoll {

std::string Group::describe(const Running& running) const {
  const Operation& operation = *running.entry.operation;
  if (!running.entry.is_collective()) {
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

std::string Group::describe_roll(const RollCall& roll) const {
  const auto absent = roll.absent();
  const auto silent = roll.silent();
  std::string said;
  if (!absent.empty()) said += "; not called by " + text().peers(absent);
  if (!silent.empty()) said += "; no answer from " + text().peers(silent);
  return said.empty() ? "; called by every rank" : said;
}

GroupState Group::state(Instant now) const {
  GroupState state;
  state.name = spec_.name;
  state.key = spec_.key;
  state.rank = spec_.rank;
  state.ranks = context_.ranks;
  state.global_rank = spec_.global_rank(spec_.rank);
  state.collectives = last_sequence_ - options_.first_number;
  state.pending = pending_;
  if (last_done_sequence_ > 0) state.last = text().operation(last_done_, last_done_sequence_);
  if (!status().ok()) {
    state.failure = status().message();
    return state;
  }
  const Running* oldest = operations_.find(0);
  if (oldest == nullptr) return state;
  state.running = describe(*oldest);
  state.running_for = now - oldest->entry.submitted;
  const OperationSpec& spec = oldest->entry.spec();
  if (IsPointToPoint(spec.collective)) {
    state.message = TraitsOf(spec.collective).call;
    state.tag = spec.user_tag;
    if (!spec.any_source) state.waits_for = {spec_.global_rank(spec.root)};
  }
  if (!oldest->entry.has_tag()) return state;
  state.progress = describe_progress(*oldest);
  if (!state.waits_for.empty()) return state;
  state.waits_for = waits_for(*oldest);
  for (Rank& rank : state.waits_for) rank = spec_.global_rank(rank);
  return state;
}

std::string Group::describe_wait(const Operation& operation) const {
  const std::string group = "group \"" + spec_.name + "\": ";
  for (const Entry& entry : operations_.queue()) {
    if (entry.operation.get() != &operation) continue;
    return group + text().operation(entry.fingerprint, operation.sequence()) +
           " waits for the operations that were called before it";
  }
  for (const auto& running : operations_.running()) {
    if (running->entry.operation.get() != &operation) continue;
    const OperationSpec& spec = operation.spec();
    std::vector<Rank> ranks;
    if (!IsPointToPoint(spec.collective)) {
      ranks = messenger_->waiting_for(Tag{running->entry.tag_operation, 0, 0});
    } else if (!spec.any_source) {
      ranks = {spec.root};
    }
    return group + describe(*running) +
           (ranks.empty() ? " runs" : " waits for " + text().peers(ranks));
  }
  return {};
}

}  // namespace rocecoll
