// SPDX-License-Identifier: Apache-2.0
// A simulated device: its registered memory, completion queue and, if shared, receive queue.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/rdma.h"
#include "transport/sim/sim_rdma.h"

namespace rocecoll {

class SimRdmaDevice final : public RdmaDevice {
 public:
  SimRdmaDevice(SimRdmaFabric& fabric, uint32_t endpoint, const RdmaLimits& limits);
  ~SimRdmaDevice() override;
  SimRdmaDevice(const SimRdmaDevice&) = delete;
  SimRdmaDevice& operator=(const SimRdmaDevice&) = delete;

  uint32_t endpoint() const { return endpoint_; }
  bool dead() const { return slot().dead; }

  RdmaLimits limits() const override { return limits_; }
  const std::string& description() const override { return description_; }
  Result<MemoryRegion> register_memory(std::span<std::byte> memory, RemoteAccess access) override;
  void deregister(const MemoryRegion& region) override;
  Result<std::unique_ptr<RdmaQueuePair>> create_queue_pair() override;
  size_t post_receives(std::span<const ReceiveRequest> batch) override;
  size_t poll(std::span<WorkCompletion> completions) override;
  bool arm() override { return dead() || completions_.empty(); }
  WaitHandle wait_handle() override { return {}; }
  Status health() override;

 private:
  friend class SimRdmaFabric;
  friend class SimRdmaQueuePair;

  struct Region {
    std::span<std::byte> memory;
    uint32_t remote_key = 0;
    RemoteAccess access = RemoteAccess::kNone;
  };
  struct Entry {
    WorkCompletion completion;
    // For a send request: its place and all earlier ones become free once this entry is polled.
    uint64_t sequence = 0;
  };

  SimRdmaFabric::Slot& slot() const { return fabric_.slots_[endpoint_]; }
  SimRdmaQueuePair* find(uint32_t number) const;
  std::vector<uint32_t> queue_pairs() const;
  size_t receive_requests() const;
  void wake_queue_pairs();
  void forget(uint32_t number);
  // Connects the queue pair when the earlier ones are connected.
  void connect_in_turn(uint32_t number);
  void start_connecting();
  void on_connect_time();
  // Whether `memory` is registered under that key.
  bool covers(uint32_t local_key, std::span<const std::byte> memory) const;
  // The memory that a peer's write addresses, or nothing if the peer may not write there.
  std::span<std::byte> writable(uint32_t remote_key, uint64_t address, size_t size) const;
  // Queue pairs of peers whose next request needs a receive request, in the order in which they are
  // served.
  void add_waiter(const SimRdmaFabric::End& end) { waiters_.push_back(end); }
  void complete(const WorkCompletion& completion, uint64_t sequence);

  SimRdmaFabric& fabric_;
  const uint32_t endpoint_;
  const RdmaLimits limits_;
  const std::string description_;
  std::map<uint32_t, Region> regions_;  // by local key
  uint32_t next_key_ = 1;
  std::deque<ReceiveRequest> receives_;
  std::deque<SimRdmaFabric::End> waiters_;
  // The first one is being connected, even if it has been destroyed.
  std::deque<uint32_t> connecting_;
  std::deque<Entry> completions_;
  std::map<uint32_t, SimRdmaQueuePair*> queue_pairs_;
};

}  // namespace rocecoll
