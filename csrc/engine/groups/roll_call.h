// SPDX-License-Identifier: Apache-2.0
// Finds out which ranks are missing. When a collective is late, the ranks that this one waits for
// may only be waiting for others. So before it fails, it asks every rank whether it has called the
// collective.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/rank.h"
#include "base/time.h"

namespace rocecoll {

class RollCall {
 public:
  void begin(Instant now, uint64_t sequence, uint32_t ranks, Rank self) {
    sequence_ = sequence;
    states_.assign(ranks, State::kSilent);
    states_[self] = State::kPresent;
    waiting_ = ranks - 1;
    next_ask_ = now;
    end_ = now + kAnswerTime;
  }
  void end() { *this = {}; }
  bool active() const { return sequence_ != 0; }
  bool asks_for(uint64_t sequence) const { return active() && sequence_ == sequence; }
  // This process did not run for `length`: the answers may still come.
  void on_pause(Duration length) { end_ += length; }
  // Calls send(rank) for each rank that has not answered, if it is time to ask (again).
  void ask(Instant now, const std::function<void(Rank)>& send) {
    if (now < next_ask_) return;
    next_ask_ = std::min(now + kAskInterval, end_);
    for (const Rank rank : silent()) send(rank);
  }
  void on_answer(Rank rank, uint64_t sequence, bool called) {
    if (!asks_for(sequence) || states_[rank] != State::kSilent) return;
    states_[rank] = called ? State::kPresent : State::kAbsent;
    --waiting_;
  }
  // Every rank has answered, or the time for answers is over.
  bool over(Instant now) const { return waiting_ == 0 || now >= end_; }
  Instant next_look() const { return waiting_ == 0 ? Instant::min() : next_ask_; }
  std::vector<Rank> absent() const { return all(State::kAbsent); }
  std::vector<Rank> silent() const { return all(State::kSilent); }

 private:
  enum class State : uint8_t { kSilent, kAbsent, kPresent };
  // Live ranks answer within a round trip, since their progress threads do, whatever the program
  // does. Notices may be lost, so ranks that have not answered are asked again.
  static constexpr Duration kAskInterval = std::chrono::milliseconds(25);
  static constexpr Duration kAnswerTime = std::chrono::milliseconds(100);

  std::vector<Rank> all(State state) const {
    std::vector<Rank> ranks;
    for (Rank rank = 0; rank < states_.size(); ++rank) {
      if (states_[rank] == state) ranks.push_back(rank);
    }
    return ranks;
  }

  uint64_t sequence_ = 0;  // 0: none; they count from 1
  std::vector<State> states_;
  uint32_t waiting_ = 0;
  Instant next_ask_{};
  Instant end_{};
};

}  // namespace rocecoll
