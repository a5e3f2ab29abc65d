// SPDX-License-Identifier: Apache-2.0
// Time as a value. Everything between the progress thread and the ports is told the time as an
// argument and never reads a clock, so that tests and the simulator control it.
#pragma once

#include <chrono>
#include <cstdint>

namespace rocecoll {

using Duration = std::chrono::nanoseconds;

// Nanoseconds since an arbitrary origin that does not change within a process.
struct MonotonicTag {
  using rep = int64_t;
  using period = std::nano;
  using duration = Duration;
};
using Instant = std::chrono::time_point<MonotonicTag, Duration>;

inline constexpr Instant kNever = Instant::max();

// kNever if the sum would overflow.
constexpr Instant After(Instant now, Duration duration) {
  return duration >= kNever - now ? kNever : now + duration;
}

// Converts with saturation: the longest Duration (292 years) stands for anything longer, and zero
// for what is not a number.
template <typename Count, typename Unit>
constexpr Duration Saturated(std::chrono::duration<Count, Unit> time) {
  constexpr auto kMost =
      std::chrono::duration_cast<std::chrono::duration<Count, Unit>>(Duration::max());
  if (time >= kMost) return Duration::max();
  if (time <= -kMost) return Duration::min();
  return time == time ? std::chrono::duration_cast<Duration>(time) : Duration{0};
}
constexpr Duration FromSeconds(double seconds) {
  return Saturated(std::chrono::duration<double>(seconds));
}

constexpr double Microseconds(Duration d) { return static_cast<double>(d.count()) / 1e3; }
constexpr double Seconds(Duration d) { return static_cast<double>(d.count()) / 1e9; }

}  // namespace rocecoll
