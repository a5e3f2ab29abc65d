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

// The symmetric handshake: each end sends INIT until it knows the other's connection id and knows
// that the other end knows its own.
class Handshake {
 public:
  static constexpr Duration kFirstRetry = std::chrono::milliseconds(1);
  static constexpr Duration kLastRetry = std::chrono::milliseconds(50);
  // The cap of the retry interval grows with the wait: a peer that opens its end late is found
  // after at most a sixteenth of the wait more.
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
    kConfirm,   // the sender needs to learn that we know its id: any PACKET tells it
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
    // The sender does not know our id yet: answer at once. If it has shown before that it does,
    // this is a late duplicate, and deadline() ignores send_at_.
    send_at_ = now;
    return Verdict::kAccepted;
  }
  // A PACKET came to our id: its sender knows the id.
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
  // The time since the first INIT, once an INIT that names our id has answered it. There is no
  // sample if the INIT was repeated, or if the answer came earlier and so is forged or another
  // connection's.
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
