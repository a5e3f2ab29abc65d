// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/check.h"

namespace rocecoll {

// The descriptors that a thread may sleep on until a port or a transport has something to do: one
// of them becomes readable then (level triggered). If there are none, nothing ever arrives from
// outside (the simulator). They belong to the object that returned them.
//
// Two paths return the descriptors of both, not that of an epoll over them: the kernel calls an
// epoll for each packet, under two locks, even while no thread sleeps (in all_reduce of 8 MiB over
// packets of 1500 bytes that took 4 to 23 % of the time).
class WaitHandle {
 public:
  // UDP, UD or the RDMA devices, shared memory, and a few for a transport from a plug-in.
  static constexpr size_t kMostDescriptors = 8;

  WaitHandle() = default;
  explicit WaitHandle(int descriptor) : descriptors_{descriptor}, count_(1) {
    ROCECOLL_CHECK(descriptor >= 0);
  }

  WaitHandle joined(const WaitHandle& other) const;
  std::span<const int> descriptors() const { return std::span(descriptors_).first(count_); }

 private:
  std::array<int, kMostDescriptors> descriptors_{};
  size_t count_ = 0;
};

}  // namespace rocecoll
