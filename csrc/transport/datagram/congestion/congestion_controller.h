// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/check.h"
#include "base/time.h"
#include "transport/datagram/congestion/circuit_breaker.h"
#include "transport/datagram/congestion/pacer.h"

namespace rocecoll {

enum class CongestionControl : uint8_t {
  kNone,   // for peers without a network in between (fixed_window.h)
  kModel,  // by a model of the path (model.h)
  kCubic,  // by losses, as most of TCP (cubic.h)
};

// The state of a path when a packet was sent.
struct SendStamp {
  uint64_t delivered = 0;  // bytes so far
  uint32_t train = 0;      // the packet's train: packets without idle time between (round_meter.h)
};

// How many bytes may be in flight on a path, and how fast they go out. The base class counts what
// is in flight and paces; derived classes decide what acknowledgements and losses mean.
class CongestionController {
 public:
  // About ten packets of Ethernet (RFC 6928); four packets where these are larger than 4 KiB.
  static constexpr uint64_t kInitialWindow = 16 * 1024;
  // The least window: BBR.MinPipeCwnd (draft-ietf-ccwg-bbr-06 section 2.8).
  static constexpr uint64_t kLeastPackets = 4;
  static constexpr uint64_t kMaxWindow = 64 * 1024 * 1024;
  // A peer delays acknowledgements by up to this long on purpose. A longer delay means that its
  // process waits for a core.
  static constexpr Duration kMostIntended = std::chrono::milliseconds(1);

  static std::unique_ptr<CongestionController> Make(CongestionControl which,
                                                    uint64_t max_window_bytes);
  virtual ~CongestionController() = default;
  CongestionController(const CongestionController&) = delete;
  CongestionController& operator=(const CongestionController&) = delete;

  uint64_t window() const { return window_; }
  uint64_t bytes_in_flight() const { return in_flight_; }
  bool has_room(uint64_t bytes) const { return in_flight_ + bytes <= window_; }
  // Whether the pacer lets the next packet go, and when it does.
  bool paced(Instant now) const { return pacer_.ready(now); }
  Instant release_at() const { return pacer_.release_at(); }
  // Bounds the rate where far too much is lost, whatever the controller believes. The owner reports
  // its news.
  CircuitBreaker& breaker() { return breaker_; }

  // Returns the stamp to pass to on_acked() for this packet.
  SendStamp on_sent(Instant now, uint64_t bytes);
  // Something waits for the window or the pacer: what is measured now is limited by the path.
  virtual void on_held_back(Instant /*now*/) {}
  // A packet that only probes the path's MTU. It counts as in flight, but neither its size nor its
  // loss says anything to the controller.
  void on_probe_sent(uint64_t bytes) { in_flight_ += bytes; }
  // Call for each acknowledged packet, then end_acknowledgement() once.
  void on_acked(uint64_t bytes, Instant sent_at, const SendStamp& stamp) {
    leave_flight(bytes);
    take_acked(bytes, sent_at, stamp);
  }
  void on_lost(Instant now, uint64_t bytes, Instant sent_at) {
    leave_flight(bytes);
    take_lost(now, bytes, sent_at);
  }
  // `packets`: how many of those that this acknowledgement names a queue has marked (ECN).
  virtual void on_marked(uint64_t /*packets*/) {}
  // For a packet that is neither acknowledged nor lost: its connection is gone, or it was a probe.
  void on_discarded(uint64_t bytes) { leave_flight(bytes); }
  // Starts over, except for the round trips: packets were too large for the path, so that what was
  // delivered says nothing of the rate.
  virtual void restart(Instant /*now*/) {}

  // What an acknowledgement says of the network: its round trip in three parts. There is none if it
  // names no packet whose round trip is known.
  struct Timing {
    Duration network;       // without the other two
    Duration back{0};       // in queues on the way back
    Duration host{0};       // on the peer's host
    bool reorders = false;  // the path did lately, so that its times vary without a queue
  };
  // Takes a sample outside of acknowledgements, too: that of the packets that open a connection,
  // before anything of ours stands in a queue.
  virtual void take_timing(Instant /*now*/, const Timing& /*timing*/) {}
  // `arrived_at`: when the newest packet that the acknowledgement names arrived at the peer's host,
  // later by the (constant) time that the way back takes.
  virtual void end_acknowledgement(Instant /*now*/, Instant /*arrived_at*/,
                                   const std::optional<Timing>& /*timing*/) {}

 protected:
  CongestionController(uint64_t max_window_bytes, uint64_t window_bytes)
      : max_window_(max_window_bytes), window_(std::min(window_bytes, max_window_bytes)) {
    ROCECOLL_CHECK(max_window_bytes > 0);
  }
  void set_window(double bytes) {
    window_ = bytes < static_cast<double>(max_window_) ? static_cast<uint64_t>(bytes) : max_window_;
  }
  // Resets everything but what is in flight.
  void reset_window() {
    packet_ = 1;
    window_ = std::min(kInitialWindow, max_window_);
    pacer_ = Pacer();
  }
  // Sets the pace in bytes per second, as far as the breaker allows. `burst_bytes` go out at once;
  // a sender that woke up late makes up for up to `catch_up_bytes`.
  void set_pace(Instant now, double rate, uint64_t burst_bytes, uint64_t catch_up_bytes) {
    if (breaker_.bound() > 0) rate = std::min(rate, breaker_.bound());
    pacer_.set_rate(now, std::max(rate, kLeastRate), burst_bytes, catch_up_bytes);
  }
  // How many bytes go out at once at this rate. `strength`, up to 1, makes bursts smaller.
  double burst_bytes(double rate, double strength) const;
  uint64_t max_window() const { return max_window_; }
  double least_window() const { return static_cast<double>(kLeastPackets * packet_); }
  // The size of the largest packet so far.
  uint64_t packet() const { return packet_; }
  Pacer& pacer() { return pacer_; }

 private:
  // Bytes per second, so that no timer of the pacer stands still.
  static constexpr double kLeastRate = 100'000;

  // The bytes of take_sent() are in bytes_in_flight() already; those of the other two have left it.
  virtual SendStamp take_sent(Instant now, uint64_t bytes) = 0;
  virtual void take_acked(uint64_t bytes, Instant sent_at, const SendStamp& stamp) = 0;
  virtual void take_lost(Instant now, uint64_t bytes, Instant sent_at) = 0;
  void leave_flight(uint64_t bytes) {
    ROCECOLL_CHECK(bytes <= in_flight_);
    in_flight_ -= bytes;
  }

  const uint64_t max_window_;
  uint64_t window_;
  uint64_t in_flight_ = 0;
  uint64_t packet_ = 1;
  Pacer pacer_;
  CircuitBreaker breaker_;
};

}  // namespace rocecoll
