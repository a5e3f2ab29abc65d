// SPDX-License-Identifier: Apache-2.0
// A write of an RC link, and how it is cut: into as many contiguous parts as the link has streams,
// once it is worth it. Both ends cut alike: the receiver counts the parts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "transport/rc/registered_memory.h"
#include "transport/transport.h"

namespace rocecoll {

// The number of an exposed slice stands in the upper half of RemoteSlice::key, its remote key in
// the lower. A slice that only the control path can reach has neither address nor remote key.
inline uint32_t ExposedNumber(const RemoteSlice& slice) {
  return static_cast<uint32_t>(slice.key >> 32);
}
inline uint32_t RemoteKey(const RemoteSlice& slice) { return static_cast<uint32_t>(slice.key); }
inline bool OnControlPath(const RemoteSlice& slice) {
  return slice.base == 0 && RemoteKey(slice) == 0;
}

// Below this many bytes for each, more parts only cost more messages.
inline constexpr size_t kMinPartBytes = size_t{32} << 10;

inline size_t PartCount(size_t bytes, size_t streams) {
  return std::clamp<size_t>(bytes / kMinPartBytes, 1, streams);
}
// Where part `index` of `count` begins, on a cache line; the end is where the next one begins.
inline size_t PartBegin(size_t bytes, size_t count, size_t index) {
  return index == count ? bytes : bytes / count * index / 64 * 64;
}

struct RcWrite {
  uint32_t id = 0;  // within the link
  RemoteSlice to;
  LocalSlice from;
  uint32_t token = 0;
  RegisteredMemory::Lease lease;  // from the first request on
  size_t parts_left = 0;
  bool on_control = false;  // the control path has it
};

}  // namespace rocecoll
