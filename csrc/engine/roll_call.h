// SPDX-License-Identifier: Apache-2.0
// Who has not come: when a collective is late, the ranks that this one waits for may only wait for
// others. So before it fails it asks every rank whether it has called the collective.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/rank.h"
#include "base/time.h"

namespace rocecoll {

class RollCall {
 public:
  void begin(Instant now, uint64_t sequence, uint32_t ranks, Rank self);
  void end() { *this = {}; }
  bool active() const { return sequence_ != 0; }
  bool asks_for(uint64_t sequence) const { return sequence_ == sequence; }
  // This process did not run for so long: the answers may still come.
  void on_pause(Duration length) { end_ += length; }
  // Calls send(rank) for each rank that has not answered, if it is time to ask (again).
  void ask(Instant now, const std::function<void(Rank)>& send);
  void on_answer(Rank rank, uint64_t sequence, bool called);
  // Every rank has answered, or had its time to.
  bool over(Instant now) const { return waiting_ == 0 || now >= end_; }
  Instant next_look() const { return waiting_ == 0 ? Instant::min() : next_ask_; }
  std::vector<Rank> absent() const { return all(State::kAbsent); }
  std::vector<Rank> silent() const { return all(State::kSilent); }

 private:
  enum class State : uint8_t { kSilent, kAbsent, kPresent };
  std::vector<Rank> all(State state) const;

  uint64_t sequence_ = 0;  // 0: none; they count from 1
  std::vector<State> states_;
  uint32_t waiting_ = 0;
  Instant next_ask_{};
  Instant end_{};
};

}  // namespace rocecoll
