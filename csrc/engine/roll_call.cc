// SPDX-License-Identifier: Apache-2.0
#include "engine/roll_call.h"

#include <algorithm>

namespace rocecoll {
namespace {

// Ranks that live answer within a round trip: their progress threads do, whatever the program
// does. Notices may be lost, so those that have not answered are asked again.
constexpr Duration kAskInterval = std::chrono::milliseconds(25);
constexpr Duration kAnswerTime = std::chrono::milliseconds(100);

}  // namespace

void RollCall::begin(Instant now, uint64_t sequence, uint32_t ranks, Rank self) {
  sequence_ = sequence;
  states_.assign(ranks, State::kSilent);
  states_[self] = State::kPresent;
  waiting_ = ranks - 1;
  next_ask_ = now;
  end_ = now + kAnswerTime;
}

void RollCall::ask(Instant now, const std::function<void(Rank)>& send) {
  if (now < next_ask_) return;
  next_ask_ = std::min(now + kAskInterval, end_);
  for (const Rank rank : silent()) send(rank);
}

void RollCall::on_answer(Rank rank, uint64_t sequence, bool called) {
  if (!asks_for(sequence) || states_[rank] != State::kSilent) return;
  states_[rank] = called ? State::kPresent : State::kAbsent;
  --waiting_;
}

std::vector<Rank> RollCall::all(State state) const {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < states_.size(); ++rank) {
    if (states_[rank] == state) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace rocecoll
