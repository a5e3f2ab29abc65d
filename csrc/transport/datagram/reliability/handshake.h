// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/check.h"
#include "base/time.h"
#include "transport/datagram/reliability/packet_wire.h"

namespace rocecoll {

// The symmetric opening: each end sends INIT until it knows the other's connection id and knows
// that the other knows its own.
class Handshake {
 public:
  static constexpr Duration kFirstRetry = std::chrono::milliseconds(1);
  static constexpr Duration kLastRetry = std::chrono::milliseconds(50);
  // A peer that opens after a long wait is waited for by at most a sixteenth of that wait more.
  static constexpr int64_t kWaitShare = 16;
  static constexpr Duration kLongestRetry = std::chrono::seconds(1);

  Handshake(const LinkId& link, uint64_t local_id, Instant now)
      : link_(link), local_id_(local_id), opened_at_(now), send_at_(now) {}

  uint64_t peer_id() const { return peer_id_; }
  bool established() const { return peer_id_ != 0; }
  bool confirmed() const { return established() && peer_knows_us_; }

  enum class Verdict : uint8_t {
    kIgnored,   // not for this link or from another incarnation of its peer
    kAccepted,  // an answer, if needed, is due
    kConfirm,   // the sender wants to hear that we know its id: any PACKET tells
  };
  Verdict on_init(Instant now, const InitBody& init) {
    ROCECOLL_CHECK(init.source_id != 0);
    if (init.link != link_.mirrored()) return Verdict::kIgnored;
    if (established() && init.source_id != peer_id_) return Verdict::kIgnored;
    if (init.destination_id != 0 && init.destination_id != local_id_) return Verdict::kIgnored;
    peer_id_ = init.source_id;
    ROCECOLL_CHECK(established());
    if (init.destination_id == local_id_) {
      peer_knows_us_ = true;
      return Verdict::kConfirm;
    }
    // The sender does not know our id yet: answer at once. Once it has shown that it does, this is
    // a late duplicate and deadline() ignores send_at_.
    send_at_ = now;
    return Verdict::kAccepted;
  }
  // A PACKET came to our id: whoever sent it knows it.
  void on_packet() { peer_knows_us_ = true; }

  bool init_due(Instant now) const { return now >= deadline(); }
  Instant deadline() const { return confirmed() ? kNever : send_at_; }
  InitBody make_init() const { return {link_, local_id_, peer_id_}; }
  void on_init_sent(Instant now) {
    ROCECOLL_CHECK(init_due(now));
    first_sent_at_ = std::min(first_sent_at_, now);
    send_at_ = now + retry_;
    const Duration longest = std::clamp((now - opened_at_) / kWaitShare, kLastRetry, kLongestRetry);
    retry_ = std::min(retry_ * 2, longest);
  }
  // Since the first INIT, which an INIT that names our id has answered. No sample once it was
  // repeated, nor if the answer is another connection's, or forged, and came before.
  std::optional<Duration> round_trip(Instant now) const {
    if (now < first_sent_at_ || now - first_sent_at_ >= kFirstRetry) return std::nullopt;
    return now - first_sent_at_;
  }

 private:
  LinkId link_;
  uint64_t local_id_;
  uint64_t peer_id_ = 0;
  bool peer_knows_us_ = false;
  Instant opened_at_;
  Instant send_at_;
  Duration retry_ = kFirstRetry;
  Instant first_sent_at_ = kNever;
};

}  // namespace rocecoll
