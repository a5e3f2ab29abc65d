// SPDX-License-Identifier: Apache-2.0
// How many messages the two ends of a stream may send each other before they hear again.
//
// Each frame and each part of a write takes one receive request of the peer, and a stream has as
// many credits as the peer has set aside requests for it. The credits that it owes its peer travel
// in the header of any frame, or in a message of their own once half of all are owed. Such a
// message takes one of kBare credits that are counted apart. Those return in the same headers, or
// in a message of credits once two are owed: two idle ends do not acknowledge each other's credits
// for ever. Four are enough never to get stuck, because a peer that hears of no new credits can
// make us send at most three such messages (with three credits, half of which are one).
#pragma once

#include <algorithm>
#include <cstdint>

#include "transport/fast_paths/rc/stream_header.h"

namespace rocecoll {

class StreamCredits {
 public:
  static constexpr uint32_t kBare = 4;
  // Receive requests that a stream with this many credits may take at once. One is for the probe.
  static constexpr uint32_t ReceivesFor(uint32_t credits) { return credits + kBare + 1; }

  StreamCredits() = default;
  // What we set aside for the peer, and what the peer sets aside for us.
  StreamCredits(uint32_t ours, uint32_t peers) : ours_(ours), left_(peers), bare_left_(kBare) {}

  // -- for what we send
  bool any() const { return left_ > 0; }
  bool any_bare() const { return bare_left_ > 0; }
  void use() { --left_; }
  void use_bare() { --bare_left_; }
  void on_returned(const StreamHeader& header) {
    left_ += header.credits;
    bare_left_ += header.bare_credits;
  }

  // -- for what the peer sends
  // The receive request that its message took is posted again. `bare`: it was a message of credits.
  void owe(bool bare) { ++(bare ? owed_bare_ : owed_); }
  bool must_return() const { return owed_ >= std::max(1u, ours_ / 2) || owed_bare_ >= 2; }
  // Puts what is owed into the header, as much as that holds.
  void return_in(StreamHeader& header) {
    header.credits = static_cast<uint16_t>(std::min<uint32_t>(owed_, UINT16_MAX));
    header.bare_credits = static_cast<uint8_t>(std::min<uint32_t>(owed_bare_, UINT8_MAX));
    owed_ -= header.credits;
    owed_bare_ -= header.bare_credits;
  }

 private:
  uint32_t ours_ = 0;
  uint32_t left_ = 0;
  uint32_t bare_left_ = 0;
  uint32_t owed_ = 0;
  uint32_t owed_bare_ = 0;
};

}  // namespace rocecoll
