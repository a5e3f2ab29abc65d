// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/time.h"

namespace rocecoll {

// Spreads what a window allows over the round trip (RFC 9002 section 7.7), in bursts: a sender that
// woke up for each packet would do nothing else, and segmentation offload needs runs of packets. A
// burst is sent in advance; then nothing goes out until the rate has paid for it.
class Pacer {
 public:
  // How much lateness a sender makes up for that waited for release_at(): timers fire 50 us late
  // and more, and whole time slices late where other processes want the core (model_test:
  // ALateSenderDoesNotSlowDown). Other senders make up for kMostLateBursts (pacer_test).
  static constexpr Duration kMostLate = std::chrono::milliseconds(20);
  static constexpr int kMostLateBursts = 2;
  // A message of segmentation offload, which queues must take anyway: the largest burst, and what a
  // late sender makes up for if its controller does not learn how much queues take.
  static constexpr uint64_t kOffloadMessage = 64 * 1024;

  // Nothing is paced until the first rate. What was sent in advance is paid for at the new rate. A
  // late sender makes up for at most `catch_up_bytes` at once (catch_up.h).
  void set_rate(Instant now, double bytes_per_second, uint64_t burst_bytes,
                uint64_t catch_up_bytes) {
    ROCECOLL_CHECK(bytes_per_second > 0);
    if (paid_at_ > now) {
      const double ahead = Seconds(paid_at_ - now) * rate_;
      rate_ = bytes_per_second;
      paid_at_ = now + Time(ahead);
      release_at_ = std::min(release_at_, paid_at_);
    }
    rate_ = bytes_per_second;
    burst_ = Time(static_cast<double>(burst_bytes));
    catch_up_ = std::min(kMostLate, Time(static_cast<double>(catch_up_bytes)));
  }
  // Bytes per second; 0 until the first rate.
  double rate() const { return rate_; }
  // When more may be sent; an instant in the past if it may be sent now.
  Instant release_at() const { return release_at_; }
  bool ready(Instant now) const { return now >= release_at_; }
  // Something other than the rate holds the sender back: there is nothing to make up for then.
  void forgive() { behind_ = false; }
  // Whether, since the last call, there was more to make up for than could go at once.
  bool take_used_up() { return std::exchange(used_up_, false); }
  // `waited`: this packet waited for release_at().
  void on_sent(Instant now, uint64_t bytes, bool waited) {
    if (rate_ == 0) {
      paid_at_ = release_at_ = now;
      return;
    }
    behind_ = (behind_ || waited) && paid_at_ < now;
    const Duration late = std::max(behind_ ? catch_up_ : Duration{0}, kMostLateBursts * burst_);
    used_up_ = used_up_ || (behind_ && paid_at_ < now - late);
    paid_at_ = std::max(paid_at_, now - late) + Time(static_cast<double>(bytes));
    if (paid_at_ - now >= burst_) release_at_ = paid_at_;
  }

 private:
  Duration Time(double bytes) const { return FromSeconds(bytes / rate_); }

  double rate_ = 0;
  Duration burst_{};
  Duration catch_up_{};
  bool used_up_ = false;
  bool behind_ = false;  // still makes up for lateness
  Instant paid_at_{};    // when the rate has paid for all that was sent
  Instant release_at_{};
};

}  // namespace rocecoll
