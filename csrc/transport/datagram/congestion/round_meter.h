// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/time.h"
#include "transport/datagram/congestion/congestion_controller.h"

namespace rocecoll {

// A round: from the sending of its first packet until everything that was in flight at that time
// has been acknowledged or lost.
struct Round {
  Duration least_rtt = Duration::max();
  Duration most_rtt{};
  Instant began{};
  uint64_t acked = 0;  // bytes
  uint64_t lost = 0;   // bytes
  uint32_t losses = 0;
  bool limited = false;  // by the congestion control, not by what there is to send
  // Of packets that arrived after another packet of their train, and after the round's first loss.
  uint64_t train_acked = 0;  // bytes
  Duration train_time{};     // between them
  bool broken = false;       // the sender was idle for a part of it

  // The share of bytes that were lost; 0 if nothing was sent.
  double lost_share() const {
    const uint64_t total = acked + lost;
    return total == 0 ? 0 : static_cast<double>(lost) / static_cast<double>(total);
  }
  // Zero if the round's beginning is not known.
  Duration time(Instant end) const { return began == Instant{} ? Duration{0} : end - began; }
  // The delivered bytes per second.
  double average(Instant end) const {
    const double seconds = Seconds(time(end));
    return seconds > 0 ? static_cast<double>(acked) / seconds : 0;
  }
  // The same, of its trains alone.
  double train_average() const {
    const double seconds = Seconds(train_time);
    return seconds > 0 ? static_cast<double>(train_acked) / seconds : 0;
  }
};

// Counts rounds by what had been delivered when a packet was sent (draft-ietf-ccwg-bbr-06 section
// 5.5.1).
//
// Where there is less to send than the path holds, the sender is idle for much of a round, and the
// round delivers what there was to send. But its packets come in trains, and from the first to the
// last packet of a train the path delivers what it can (packet trains: Jain and Routhier, IEEE JSAC
// 1986; Dovrolis et al., INFOCOM 2001).
class RoundMeter {
 public:
  // The least time to measure a rate over, and the least that counts as idle. A shaper's burst
  // passes faster than its rate for that long: with 200 Mbit/s into 64 KiB, 6 to 8 % was sent again
  // without this bound, and 0.05 % with it.
  static constexpr Duration kLeastRound = std::chrono::microseconds(200);

  void begin(Instant now) {
    round_ = {};
    round_.began = now;
    ends_at_ = delivered_;
  }
  void on_held_back(Instant now) { held_back_at_ = now; }
  // There was nothing to send for a while, until now.
  void on_idle() { ++train_; }
  SendStamp stamp() const { return {delivered_, train_}; }
  void on_acked(uint64_t bytes, Instant sent_at, const SendStamp& stamp) {
    delivered_ += bytes;
    if (sent_at >= newest_at_) {
      newest_at_ = sent_at;
      newest_ = stamp;
    }
    round_.acked += bytes;
    acked_ += bytes;
    oldest_at_ = std::min(oldest_at_, sent_at);
  }
  // What arrives after a loss has left a full queue, and is no burst of a token bucket.
  void on_lost(uint64_t bytes) {
    if (round_.losses == 0) {
      round_.train_acked = 0;
      round_.train_time = {};
    }
    round_.lost += bytes;
    ++round_.losses;
  }
  void take_rtt(Duration network) {
    round_.least_rtt = std::min(round_.least_rtt, network);
    round_.most_rtt = std::max(round_.most_rtt, network);
  }
  // When the oldest packet of this acknowledgement was sent; kNever if it names none. Call once for
  // each acknowledgement.
  Instant take_oldest() { return std::exchange(oldest_at_, kNever); }
  // After the last packet of an acknowledgement: whether its newest packet, which arrived at
  // `arrived_at`, was sent in this round, so that the round is complete.
  bool complete(Instant arrived_at) {
    round_.limited = round_.limited || held_back_at_ >= newest_at_;
    if (newest_.train == arrived_train_) {
      round_.train_acked += acked_;
      round_.train_time += arrived_at - arrived_at_;
    } else {
      round_.broken = true;
    }
    arrived_train_ = newest_.train;
    arrived_at_ = arrived_at;
    acked_ = 0;
    return newest_.delivered >= ends_at_;
  }

  const Round& round() const { return round_; }
  uint64_t delivered() const { return delivered_; }

 private:
  Round round_;
  uint64_t delivered_ = 0;
  uint64_t ends_at_ = 0;  // delivered
  Instant held_back_at_{};
  // Of the acknowledgement that is being read: when its oldest and newest packets were sent, the
  // stamp of the newest, and the bytes of all.
  Instant oldest_at_ = kNever;
  Instant newest_at_{};
  SendStamp newest_;
  uint64_t acked_ = 0;
  // When the newest packet of the previous acknowledgement arrived, and its train.
  Instant arrived_at_{};
  uint32_t arrived_train_ = 0;
  uint32_t train_ = 0;  // being sent
};

}  // namespace rocecoll
