// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/group_state.h"

#include "engine/groups/group.h"

namespace rocecoll {

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
  if (!status_.ok()) {
    state.failure = status_.message();
    return state;
  }
  const Running* oldest = find(0);
  if (oldest == nullptr) return state;
  state.running = describe(*oldest);
  state.running_for = now - oldest->entry.submitted;
  const OperationSpec& spec = oldest->entry.operation->spec();
  if (IsPointToPoint(spec.collective)) {
    state.message = TraitsOf(spec.collective).call;
    state.tag = spec.user_tag;
    if (!spec.any_source) state.waits_for = {spec_.global_rank(spec.root)};
  }
  if (oldest->entry.tag_operation == kNoTag) return state;
  state.progress = describe_progress(*oldest);
  if (!state.waits_for.empty()) return state;
  state.waits_for = waits_for(*oldest);
  for (Rank& rank : state.waits_for) rank = spec_.global_rank(rank);
  return state;
}

std::string Group::describe_wait(const Operation& operation) const {
  const std::string group = "group \"" + spec_.name + "\": ";
  for (const Entry& entry : queue_) {
    if (entry.operation.get() != &operation) continue;
    return group + text().operation(entry.fingerprint, operation.sequence()) +
           " waits for the operations that were called before it";
  }
  for (const auto& running : running_) {
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
