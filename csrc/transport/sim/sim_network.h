// SPDX-License-Identifier: Apache-2.0
// A packet network in virtual time: endpoints numbered from zero, each direction between two of
// them with its own latency, bandwidth and faults. One seed, one trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "transport/obstacle.h"
#include "transport/sim/event_queue.h"
#include "transport/sim/sim_bottleneck.h"

namespace rocecoll {

class SimPort;

// One direction of a wire.
struct SimWire {
  Duration latency = std::chrono::microseconds(10);
  double bytes_per_second = 0;   // 0: infinitely fast
  size_t queue_bytes = 1 << 22;  // waiting to be serialized; more is dropped
  double loss = 0;
  double duplicate = 0;
  double reorder = 0;  // probability of an extra delay of up to `reorder_delay`
  Duration reorder_delay = std::chrono::microseconds(200);
  double corrupt = 0;         // probability of flipping one bit
  size_t mtu_bytes = 0;       // larger datagrams are dropped; 0: none is too large
  bool mtu_reported = false;  // to the sender, which then knows the limit
  bool blocked = false;
  Obstacle obstacle = Obstacle::kNone;  // what the sender's port reports while blocked
  // Where its datagrams queue with those of other wires, instead of `bytes_per_second`. Outlives
  // the network.
  SimBottleneck* bottleneck = nullptr;
};

struct SimPortOptions {
  size_t max_datagram_bytes = 1452;
  size_t min_datagram_bytes = 0;  // 0: max_datagram_bytes
  size_t max_burst = 64;
  size_t receive_buffer_bytes = 1 << 20;  // arrivals beyond it are dropped
  // As UDP_SEGMENT: of a run of equal datagrams and a shorter one, sent together, a hop drops all
  // if the first is too large for it. Linux forwards such a run of a container's as one.
  bool segments = true;
  bool checks_payload = false;  // as RoCE does: what a wire changes is dropped
};

struct SimNetworkStats {
  uint64_t sent = 0;  // handed in by ports
  uint64_t delivered = 0;
  uint64_t dropped = 0;  // by fault, full queue, blockade, or for want of a receiver
};

class SimNetwork {
 public:
  // `queue` outlives the network, the network outlives its ports.
  SimNetwork(EventQueue& queue, uint64_t seed, const SimWire& wire = {});
  ~SimNetwork();

  // A port of a new endpoint.
  std::unique_ptr<SimPort> add_endpoint(const SimPortOptions& options = {});
  // A new port for an endpoint whose former port is gone, at the same address.
  std::unique_ptr<SimPort> restart_endpoint(uint32_t endpoint, const SimPortOptions& options = {});
  size_t endpoints() const { return ports_.size(); }
  // True: datagrams for an endpoint without a port make the sender's port report it unreachable.
  void set_report_unreachable(bool report) { report_unreachable_ = report; }

  // The wire from one endpoint to another, to be changed at will.
  SimWire& wire(uint32_t from, uint32_t to);
  // Blocks (or opens) both directions between every endpoint below `boundary` and every other.
  void set_partition(uint32_t boundary, bool blocked, Obstacle obstacle = Obstacle::kNone);

  Instant now() const { return queue_.now(); }
  const SimNetworkStats& stats() const { return stats_; }
  // A digest of all deliveries so far: who, when, what.
  uint64_t trace_digest() const { return digest_; }
  // The same but for what: runs that differ in random connection ids and keys alone have equal
  // ones.
  uint64_t timing_digest() const { return timing_digest_; }

 private:
  friend class SimPort;
  using Bytes = std::shared_ptr<std::vector<std::byte>>;
  struct Direction {
    SimWire wire;
    Instant free_at{};  // when the last queued byte will have been serialized
  };

  // `segment_bytes`: the size that a hop compares with its MTU.
  void transmit(uint32_t from, uint32_t to, std::span<const std::byte> header,
                std::span<const std::byte> payload, size_t segment_bytes);
  struct Datagram {
    Bytes bytes;
    bool marked = false;
  };
  void carry(uint32_t from, uint32_t to, const SimWire& wire, Instant serialized,
             Datagram datagram);
  void deliver(uint32_t from, uint32_t to, Datagram datagram);
  void detach(uint32_t endpoint);
  Direction& direction(uint32_t from, uint32_t to);

  EventQueue& queue_;
  Random random_;
  SimWire default_wire_;
  std::map<std::pair<uint32_t, uint32_t>, Direction> directions_;
  std::vector<SimPort*> ports_;  // null while an endpoint has no port
  // Events of a destroyed network, should the queue run on, must not touch it.
  std::shared_ptr<bool> alive_;
  bool report_unreachable_ = false;
  SimNetworkStats stats_;
  uint64_t digest_ = 0xcbf29ce484222325ull;
  uint64_t timing_digest_ = 0xcbf29ce484222325ull;
};

}  // namespace rocecoll
