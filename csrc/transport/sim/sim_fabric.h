// SPDX-License-Identifier: Apache-2.0
// A network of N endpoints at the level of links, for algorithms and engines: no packets, no loss.
// A transfer of n bytes leaves through its endpoint's one injection port (n * ns_per_byte), arrives
// `latency` after it began to leave, and enters through the receiver's one ejection port (again
// n * ns_per_byte, at the same time when both ports are free). Computing takes no time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "transport/sim/event_queue.h"
#include "transport/transport.h"

namespace rocecoll {

class SimTransport;

struct SimFabricOptions {
  uint32_t endpoints = 2;
  Duration latency = std::chrono::microseconds(5);
  double ns_per_byte = 0.1;
  Duration max_jitter{0};  // uniform, added to each transfer's latency; keeps the order in a link
  uint64_t seed = 1;
  Duration detection_delay = std::chrono::milliseconds(1);  // from kill() until the peers know
  size_t max_frame_bytes = 8 * 1024;
  size_t preferred_eager_bytes = 8 * 1024;
  size_t max_write_bytes = SIZE_MAX;
  uint32_t messages_in_flight = UINT32_MAX;
  uint32_t overlapping_lanes = TransportLimits().overlapping_lanes;
  uint32_t max_queued_frames = 256;  // for each link and direction, until polled by the peer
  uint32_t max_queued_writes = 256;  // until written
};

class SimFabric {
 public:
  explicit SimFabric(const SimFabricOptions& options);
  ~SimFabric();

  const SimFabricOptions& options() const { return options_; }
  uint32_t size() const { return options_.endpoints; }
  SimTransport& transport(uint32_t endpoint);
  // The endpoint's process dies: it sends, reads, writes and reports nothing any more. Peers with a
  // link to it are told (kPeerLost) after detection_delay.
  void kill(uint32_t endpoint);
  bool alive(uint32_t endpoint) const { return !ports_[endpoint].dead; }

  Instant now() const { return queue_.now(); }
  Instant next_event_time() const { return queue_.next_time(); }
  // Moves the clock to the next event and runs all events due then. Returns false if there is none.
  bool advance();
  EventQueue& queue() { return queue_; }
  // Endpoints that have had something to poll, or have got room to send, since the last call.
  std::vector<uint32_t> take_ready();

 private:
  friend class SimTransport;
  friend class SimLink;

  struct Port {
    Instant injection_free{};
    Instant ejection_free{};
    bool ready = false;
    bool dead = false;
  };

  void mark_ready(uint32_t endpoint);
  // Runs `deliver` when `bytes` sent now have entered `to`. `last_arrival` keeps transfers of one
  // link in order.
  void carry(uint32_t from, uint32_t to, size_t bytes, Instant& last_arrival,
             EventQueue::Callback deliver);
  Duration transfer_time(size_t bytes) const;

  SimFabricOptions options_;
  EventQueue queue_;
  Random random_;
  std::vector<Port> ports_;
  std::vector<uint32_t> ready_;
  std::vector<std::unique_ptr<SimTransport>> transports_;
};

// The driver loop of tests: steps every endpoint once, then those that become ready or due as time
// advances. It returns true as soon as done() is true, and false if nothing will ever happen again
// or the clock has passed `limit`. step(endpoint, now) returns the latest time at which that
// endpoint wants to be stepped again.
bool RunUntil(SimFabric& fabric, const std::function<Instant(uint32_t, Instant)>& step,
              const std::function<bool()>& done, Duration limit = std::chrono::minutes(60));

}  // namespace rocecoll
