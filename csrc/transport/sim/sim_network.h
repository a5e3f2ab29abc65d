// SPDX-License-Identifier: Apache-2.0
// A packet network in virtual time: endpoints are numbered from zero, and each direction between
// two of them has its own latency, bandwidth and faults. The same seed gives the same trace.
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
  size_t queue_bytes = 1 << 22;  // waiting to be serialized; what exceeds this is dropped
  double loss = 0;
  double duplicate = 0;
  double reorder = 0;  // probability of an extra delay of up to `reorder_delay`
  Duration reorder_delay = std::chrono::microseconds(200);
  double corrupt = 0;    // probability of flipping one bit
  size_t mtu_bytes = 0;  // larger datagrams are dropped; 0: none is too large
  // The sender is told that a datagram was too large, and then knows the limit.
  bool mtu_reported = false;
  bool blocked = false;
  Obstacle obstacle = Obstacle::kNone;  // what the sender's port reports while blocked
  // The queue that its datagrams share with those of other wires, in place of `bytes_per_second`.
  // It outlives the network.
  SimBottleneck* bottleneck = nullptr;
};

struct SimPortOptions {
  size_t max_datagram_bytes = 1452;
  size_t min_datagram_bytes = 0;  // 0: max_datagram_bytes
  size_t max_burst = 64;
  size_t receive_buffer_bytes = 1 << 20;  // arrivals beyond it are dropped
  // As with UDP_SEGMENT: if the first datagram of a run (equal sizes, the last may be shorter) that
  // was sent together is too large for a hop, the hop drops the whole run. Linux forwards such a
  // run from a container as one packet.
  bool segments = true;
  bool checks_payload = false;  // as RoCE does: a datagram that the wire has changed is dropped
};

struct SimNetworkStats {
  uint64_t sent = 0;  // datagrams that ports handed in
  uint64_t delivered = 0;
  uint64_t dropped = 0;  // because of a fault, a full queue, a blockade, or a missing receiver
};

class SimNetwork {
 public:
  // `queue` outlives the network, and the network outlives its ports.
  SimNetwork(EventQueue& queue, uint64_t seed, const SimWire& wire = {});
  ~SimNetwork();

  // Makes a port for a new endpoint.
  std::unique_ptr<SimPort> add_endpoint(const SimPortOptions& options = {});
  // Makes a new port, at the same address, for an endpoint whose former port is gone.
  std::unique_ptr<SimPort> restart_endpoint(uint32_t endpoint, const SimPortOptions& options = {});
  size_t endpoints() const { return ports_.size(); }
  // True: a datagram for an endpoint without a port makes the sender's port report it unreachable.
  void set_report_unreachable(bool report) { report_unreachable_ = report; }

  // The wire from one endpoint to another. It may be changed at any time.
  SimWire& wire(uint32_t from, uint32_t to);
  // Blocks (or opens) both directions between every endpoint below `boundary` and every other.
  void set_partition(uint32_t boundary, bool blocked, Obstacle obstacle = Obstacle::kNone);

  Instant now() const { return queue_.now(); }
  const SimNetworkStats& stats() const { return stats_; }
  // A digest of all deliveries so far: between which endpoints, when, and what.
  uint64_t trace_digest() const { return digest_; }
  // The same without the content: runs that differ only in random connection ids and keys have
  // equal ones.
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
  // Events of a destroyed network must not touch it if the queue still runs.
  std::shared_ptr<bool> alive_;
  bool report_unreachable_ = false;
  SimNetworkStats stats_;
  uint64_t digest_ = 0xcbf29ce484222325ull;
  uint64_t timing_digest_ = 0xcbf29ce484222325ull;
};

}  // namespace rocecoll
