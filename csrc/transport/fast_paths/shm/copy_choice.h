// SPDX-License-Identifier: Apache-2.0
// How large writes go between two processes: through the ring, copied in at one end and out at the
// other, or fetched, one copy by the kernel, which has to find each page first. Which takes less
// depends on how far their processors are from each other (threads of one core, cores with a common
// cache, neither), and processes move. So the writer chooses by what both have lately taken.
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

  // This process has copied so much, to or from the other one.
  void on_copied(Copy which, size_t bytes, Duration took) {
    double& cost = picoseconds_per_byte_[static_cast<size_t>(which)];
    const double sample =
        std::chrono::duration<double, std::pico>(took).count() / static_cast<double>(bytes);
    // What is much longer than the other is the system's: somebody else had the processor.
    cost = cost == 0 ? sample : std::min(cost, kMuch * sample);
    cost += (std::min(sample, kMuch * cost) - cost) * kWeight;
  }

  // For the other one: what it costs this process to fetch a byte rather than copy it out of the
  // ring, in picoseconds and at least 1. 0: not known.
  uint32_t fetch_costs_more() const {
    const double fetch = cost(Copy::kFetch);
    const double out = cost(Copy::kOutOfRing);
    if (fetch == 0 || out == 0) return 0;
    return static_cast<uint32_t>(std::clamp(fetch - out, 1.0, 1e9));
  }

  // For the next large write, where the other one says that. Until both are known writes are
  // fetched, but for those that find it out.
  bool next_is_fetched(uint32_t their_fetch_costs_more) {
    const double into = cost(Copy::kIntoRing);
    const bool better = into == 0 || their_fetch_costs_more == 0 || their_fetch_costs_more <= into;
    const bool tries_other = ++writes_ % kTryEvery == kFirstTry;
    return better != tries_other;
  }

 private:
  static constexpr double kWeight = 1.0 / 8;
  static constexpr double kMuch = 4;
  // Rarely enough that it costs little where the other one takes twice as long: 1.6 %.
  static constexpr uint64_t kTryEvery = 64;
  static constexpr uint64_t kFirstTry = 4;

  double cost(Copy which) const { return picoseconds_per_byte_[static_cast<size_t>(which)]; }

  std::array<double, 3> picoseconds_per_byte_{};  // 0: not known
  uint64_t writes_ = 0;
};

}  // namespace rocecoll
