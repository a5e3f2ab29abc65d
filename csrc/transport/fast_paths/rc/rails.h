// SPDX-License-Identifier: Apache-2.0
// The ports that a process spreads its messages over, its rails, each an RDMA device of its own.
// All memory is registered with all of them, under keys of each. Rail i of a process talks to rail
// i of another one. A rail may fail and come back while the others work.
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

// By which a peer writes over that rail of ours.
inline uint32_t RemoteKey(const RemoteSlice& slice, size_t rail) {
  return rail == 0 ? static_cast<uint32_t>(slice.key) : slice.more_keys[rail - 1];
}

// Of a rail that is gone it has no keys.
struct RailRegion {
  std::array<MemoryRegion, RemoteSlice::kMaxPorts> of{};
};

// For people, those of the devices whose bit is set: "mlx5_0 port 1 and mlx5_1 port 1".
std::string Names(const RdmaDevices& devices, uint32_t which = UINT32_MAX);

class Rails {
 public:
  using Set = uint32_t;  // a bit for each

  // One at least.
  explicit Rails(RdmaDevices devices);

  size_t count() const { return devices_.size(); }
  RdmaDevice& operator[](size_t rail) const { return *devices_[rail]; }
  // For people.
  const std::string& description() const { return description_; }
  std::string describe(Set rails) const { return Names(devices_, rails); }
  // What holds for each of them.
  const RdmaLimits& limits() const { return limits_; }

  Result<RailRegion> register_memory(std::span<std::byte> memory, RemoteAccess access);
  void deregister(const RailRegion& region);

  // Asks all of them. Not ok, in the words of the first, while none works.
  Status look();
  // As of the last look; all before.
  Set working() const { return working_; }
  // Of a rail that did not work at the last look.
  const std::string& problem(size_t rail) const { return problems_[rail]; }

  WaitHandle wait_handle() const;
  bool arm() const;

 private:
  const RdmaDevices devices_;
  RdmaLimits limits_;
  std::string description_;
  Set working_;
  Set gone_ = 0;  // have not got what has been registered since: they cannot come back
  std::array<std::string, RemoteSlice::kMaxPorts> problems_;
};

}  // namespace rocecoll
