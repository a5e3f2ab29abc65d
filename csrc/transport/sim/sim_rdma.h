// SPDX-License-Identifier: Apache-2.0
// RDMA devices in virtual time, under the contract of transport/rdma.h, and what can go wrong with
// them. A request leaves through its device's single port (its bytes at `bytes_per_second`), is
// executed `latency` later at the peer, in order within its queue pair, and is acknowledged after
// another `latency`. The same seed gives the same trace.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "transport/rdma.h"
#include "transport/sim/event_queue.h"

namespace rocecoll {

class SimRdmaDevice;
class SimRdmaQueuePair;

struct SimRdmaOptions {
  uint64_t seed = 1;
  Duration latency = std::chrono::microseconds(5);
  double bytes_per_second = 0;  // of each device's port; 0: infinitely fast
  Duration max_jitter{0};  // uniform, added to a request's latency; keeps the queue pair's order
  // The time from the first sign that a request or its acknowledgement cannot get through until
  // kRetryExceeded.
  Duration retry_timeout = std::chrono::milliseconds(100);
  // A device connects one queue pair after another, and each takes this long; 0: at once.
  Duration connect_time{0};
  // How long a request waits for a receive request before it fails with kReceiverNotReady.
  Duration receiver_wait = std::chrono::milliseconds(10);
};

// What a device refuses to do for now, as a system short of resources does.
struct SimRdmaRefusals {
  bool registrations = false;
  bool queue_pairs = false;
  bool connections = false;
  bool posts_after_failure = false;
  size_t queue_pairs_beyond = SIZE_MAX;  // refuses another one if this many exist
  uint64_t connections_refused = 0;      // the number so far
};

// What a device has registered.
struct SimRdmaRegistrations {
  uint64_t calls = 0;
  uint64_t bytes_asked = 0;  // the sum over all calls
  uint64_t largest_bytes = 0;
  uint64_t bytes = 0;  // registered now
  uint64_t most_bytes = 0;
};

class SimRdmaFabric {
 public:
  // `queue` outlives the fabric, and the fabric outlives its devices.
  SimRdmaFabric(EventQueue& queue, const SimRdmaOptions& options = {});
  ~SimRdmaFabric();

  static RdmaLimits DefaultLimits();
  // The limits of a device without shared receive queues.
  static RdmaLimits OwnReceiveLimits();
  // Makes the device of a new endpoint; endpoints are numbered from zero. Destroying the device
  // stands for the death of its process.
  std::unique_ptr<RdmaDevice> add_device(const RdmaLimits& limits = DefaultLimits());

  // From now on nothing passes between the two in either direction, not even acknowledgements.
  // Requests that cannot get through end in kRetryExceeded, unless the link is mended in time.
  void cut(uint32_t a, uint32_t b);
  void mend(uint32_t a, uint32_t b);
  // Sets the state of the device's only port. While it is down nothing passes, and health() reports
  // it.
  void set_port(uint32_t endpoint, bool up);
  // The endpoint's process dies: from now on its device sends, serves, lands and reports nothing.
  void kill(uint32_t endpoint);
  SimRdmaRefusals& refusals(uint32_t endpoint);
  SimRdmaRegistrations& registrations(uint32_t endpoint);
  // Bytes sent through the endpoint's port since the beginning.
  uint64_t bytes_sent(uint32_t endpoint) const { return slots_.at(endpoint).bytes_sent; }
  // The queue pairs of the endpoint, by number, oldest first.
  std::vector<uint32_t> queue_pairs(uint32_t endpoint) const;
  // The receive requests that the endpoint's device holds, in all of its queues.
  size_t receive_requests(uint32_t endpoint) const;
  // The queue pairs that all endpoints have made since the beginning.
  uint32_t queue_pairs_made() const { return next_number_ - kFirstNumber; }
  // Likewise, the immediates that came with data.
  uint64_t data_with_immediates() const { return data_with_immediates_; }
  // An internal error of one end: its oldest outstanding request fails, and the others are flushed.
  void break_queue_pair(uint32_t endpoint, uint32_t number);

  const SimRdmaOptions& options() const { return options_; }
  // A digest of everything executed so far: when, between which endpoints, and what.
  uint64_t trace_digest() const { return digest_; }

 private:
  friend class SimRdmaDevice;
  friend class SimRdmaQueuePair;

  // One end of a connection, as the other end's address names it.
  struct End {
    uint32_t endpoint = 0;
    uint32_t number = 0;
    friend bool operator==(const End&, const End&) = default;
  };
  struct Slot {
    SimRdmaDevice* device = nullptr;  // null once destroyed
    bool dead = false;
    bool port_up = true;
    SimRdmaRefusals refusals;
    SimRdmaRegistrations registrations;
    Instant port_free{};  // when the last byte handed to the port will have left
    uint64_t bytes_sent = 0;
  };
  struct Flight {
    Instant departs{};
    Instant arrives{};
  };

  bool passable(uint32_t a, uint32_t b) const;
  SimRdmaQueuePair* find(const End& end) const;
  // Takes the endpoint's port for `bytes`.
  Flight launch(uint32_t endpoint, size_t bytes);
  // Runs `action` on the device, or the queue pair, if it still exists then.
  void schedule(Instant at, uint32_t endpoint, std::function<void(SimRdmaDevice&)> action);
  void schedule(Instant at, const End& end, std::function<void(SimRdmaQueuePair&)> action);
  // Something that requests wait for, such as a path or a peer, may have changed.
  void wake_all();
  void note(uint64_t value);
  void note(std::span<const std::byte> bytes);

  EventQueue& queue_;
  const SimRdmaOptions options_;
  Random random_;
  std::vector<Slot> slots_;
  std::set<std::pair<uint32_t, uint32_t>> cuts_;  // lower endpoint first
  static constexpr uint32_t kFirstNumber = 17;    // 0 and 1 are special in InfiniBand
  uint32_t next_number_ = kFirstNumber;
  uint64_t data_with_immediates_ = 0;
  // Events of a destroyed fabric must not touch it if the queue still runs.
  std::shared_ptr<bool> alive_;
  uint64_t digest_ = 0xcbf29ce484222325ull;
};

}  // namespace rocecoll
