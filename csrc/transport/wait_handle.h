// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/check.h"

namespace rocecoll {

// What a thread may sleep on until a port or a transport has something to do: descriptors, one of
// which becomes readable (level triggered) then. Without any nothing ever arrives from outside (the
// simulator). Owned by whoever returned them.
//
// Two paths hand out the descriptors of both, not one of an epoll over them: the kernel
// calls that for each packet, under two locks, also while nobody sleeps (in all_reduce of 8 MiB
// over packets of 1500 bytes it took 4 to 23 % of the time).
class WaitHandle {
 public:
  // UDP, UD or the devices for RDMA, shared memory; some more for a transport that is plugged in.
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
