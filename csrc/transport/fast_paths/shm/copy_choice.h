// SPDX-License-Identifier: Apache-2.0
// How large writes go between two processes: through the ring, copied in at one end and out at the
// other, or fetched, one copy by the kernel, which has to find each page first. Which takes less
// depends on how far their processors are from each other (threads of one core, cores with a common
// cache, neither), and processes move. So the writer chooses by what both have lately taken.
//
// What that is worth, measured on two busy cores with a common L3 cache, two ranks, all_reduce,
// broadcast and all_gather of 1 to 64 MiB, in turn with fixed rules: always through the ring took
// 0.56 to 1.03 of the choice's best time, always fetched 1.03 to 2.6. So where caches are shared
// the fixed rule "through the ring" would do; the choice is for processors that share none.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace rocecoll {

// One process' view of another one.
class CopyChoice {
 public:
  enum class Copy : uint8_t { kIntoRing, kOutOfRing, kFetch };
  // The parts of a write that goes through the ring.
  static constexpr size_t kPartBytes = size_t{32} << 10;

  // Whether to time the copy of the part at that offset of its write: one in four is enough.
  static bool Times(size_t offset, size_t bytes) {
    return offset % (4 * kPartBytes) == kPartBytes && bytes == kPartBytes;
  }

  // This process has copied `bytes` to or from the other one.
  void on_copied(Copy which, size_t bytes, Duration took) {
    double& cost = picoseconds_per_byte_[static_cast<size_t>(which)];
    const double sample =
        std::chrono::duration<double, std::pico>(took).count() / static_cast<double>(bytes);
    // A sample much larger than the average tells of the system, not of the copy: another process
    // had the processor.
    cost = cost == 0 ? sample : std::min(cost, kMuch * sample);
    cost += (std::min(sample, kMuch * cost) - cost) * kWeight;
  }

  // For the other process: what fetching a byte costs this one more than copying it out of the
  // ring, in picoseconds and at least 1. 0: not known.
  uint32_t fetch_costs_more() const {
    const double fetch = cost(Copy::kFetch);
    const double out = cost(Copy::kOutOfRing);
    if (fetch == 0 || out == 0) return 0;
    return static_cast<uint32_t>(std::clamp(fetch - out, 1.0, 1e9));
  }

  // Whether the next large write is to be fetched, given what the other process says. Writes are
  // fetched until the cost of both ways is known, except those that are to find it out.
  bool next_is_fetched(uint32_t their_fetch_costs_more) {
    const double into = cost(Copy::kIntoRing);
    const bool better = into == 0 || their_fetch_costs_more == 0 || their_fetch_costs_more <= into;
    const bool tries_other = ++writes_ % kTryEvery == kFirstTry;
    return better != tries_other;
  }

 private:
  static constexpr double kWeight = 1.0 / 8;
  static constexpr double kMuch = 4;
  // One write in this many goes the other way. That costs 1.6 % where the other way takes twice as
  // long.
  static constexpr uint64_t kTryEvery = 64;
  static constexpr uint64_t kFirstTry = 4;

  double cost(Copy which) const { return picoseconds_per_byte_[static_cast<size_t>(which)]; }

  std::array<double, 3> picoseconds_per_byte_{};  // 0: not known
  uint64_t writes_ = 0;
};

}  // namespace rocecoll
