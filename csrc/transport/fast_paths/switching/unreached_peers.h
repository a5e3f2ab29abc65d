// SPDX-License-Identifier: Apache-2.0
// Peers that the fast path was tried with and did not reach, for all links of a process. Links to
// them need not wait for another attempt before the control path carries them. Attempts go on in
// the background, one at a time: a device may take a second, in which it connects to nobody else,
// to find out that an address does not answer.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <unordered_map>

#include "base/time.h"
#include "transport/fast_paths/switching/switching_retry.h"

namespace rocecoll {

class UnreachedPeers {
 public:
  static constexpr size_t kMaxPeers = 1024;  // further ones are not recorded
  static constexpr Duration kAnswerInterval = std::chrono::seconds(10);

  void on_failure(const std::string& peer, const std::string& reason) {
    if (peers_.size() >= kMaxPeers && !peers_.contains(peer)) return;
    peers_[peer] = reason;
    last_reason_ = reason;
  }
  void on_reached(const std::string& peer, Instant now) {
    peers_.erase(peer);
    reached_any_ = true;
    turns_ = SwitchingRetry(0);
    next_turn_ = next_answer_ = now;
  }
  // Something has changed that is worth an attempt with every peer.
  void forget() { *this = {}; }

  // Why an attempt with this peer is not worth waiting for. Empty if it is. As long as no peer was
  // reached, what is true of one is taken to be true of all.
  const std::string& doubt(const std::string& peer) const {
    static const std::string none;
    const auto found = peers_.find(peer);
    if (found != peers_.end()) return found->second;
    return reached_any_ ? none : last_reason_;
  }
  // Whether an attempt with one of them may begin. The others then wait until next_turn().
  bool take_turn(Instant now) {
    if (now < next_turn_) return false;
    next_turn_ = turns_.next_after(now);
    return true;
  }
  Instant next_turn() const { return next_turn_; }
  // Likewise, for an attempt that the peer asks for.
  bool take_answer(Instant now) {
    if (now < next_answer_) return false;
    next_answer_ = now + kAnswerInterval;
    return true;
  }

 private:
  std::unordered_map<std::string, std::string> peers_;  // why, by address
  std::string last_reason_;
  bool reached_any_ = false;
  SwitchingRetry turns_{0};
  Instant next_turn_{};
  Instant next_answer_{};
};

}  // namespace rocecoll
