// SPDX-License-Identifier: Apache-2.0
// No NIC has run this yet: several rails have run on Soft-RoCE and on simulated devices only.
//
// The ports that a process spreads its messages over are its rails, each an RDMA device of its own.
// All memory is registered with every rail and has a key of each. Rail i of a process talks to rail
// i of another process. A rail may fail and come back while the others work.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/rdma.h"
#include "transport/transport.h"

namespace rocecoll {

// The key by which a peer writes over that rail of ours.
inline uint32_t RemoteKey(const RemoteSlice& slice, size_t rail) {
  return rail == 0 ? static_cast<uint32_t>(slice.key) : slice.more_keys[rail - 1];
}

// The keys of a piece of memory, by rail. Those of a rail that is gone are empty.
struct RailRegion {
  std::array<MemoryRegion, RemoteSlice::kMaxPorts> of{};
};

// For messages: the names of those devices whose bit is set, "mlx5_0 port 1 and mlx5_1 port 1".
std::string Names(const RdmaDevices& devices, uint32_t which = UINT32_MAX);

class Rails {
 public:
  using Set = uint32_t;  // bit i stands for rail i

  // There must be at least one device.
  explicit Rails(RdmaDevices devices);

  size_t count() const { return devices_.size(); }
  RdmaDevice& operator[](size_t rail) const { return *devices_[rail]; }
  // For messages.
  const std::string& description() const { return description_; }
  std::string describe(Set rails) const { return Names(devices_, rails); }
  // What every rail allows: the least of each limit.
  const RdmaLimits& limits() const { return limits_; }

  Result<RailRegion> register_memory(std::span<std::byte> memory, RemoteAccess access);
  void deregister(const RailRegion& region);

  // Asks all rails for their health. While none works, returns the first one's problem.
  Status look();
  // The rails that worked at the last look; before the first one, all.
  Set working() const { return working_; }
  // Why a rail did not work at the last look.
  const std::string& problem(size_t rail) const { return problems_[rail]; }

  WaitHandle wait_handle() const;
  bool arm() const;

 private:
  const RdmaDevices devices_;
  RdmaLimits limits_;
  std::string description_;
  Set working_;
  Set gone_ = 0;  // lack memory that was registered since they failed, so they cannot come back
  std::array<std::string, RemoteSlice::kMaxPorts> problems_;
};

}  // namespace rocecoll
