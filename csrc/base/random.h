// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/random.h>

#include <cstdint>

#include "base/check.h"

namespace rocecoll {

// A deterministic generator for simulation, fault injection and jitter: SplitMix64 (Steele, Lea,
// Flood, OOPSLA 2014). The same seed yields the same sequence everywhere. Never for secrets.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  // Uniform in [0, bound), bound > 0. The bias of the multiplication is below 2^-32 for our bounds.
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  bool chance(double probability) { return uniform() < probability; }

 private:
  uint64_t state_;
};

// 64 bits from the operating system's entropy source, for ids that must not be guessable. Never
// zero.
inline uint64_t EntropyId() {
  uint64_t id = 0;
  while (id == 0) {
    // Requests of up to 256 bytes are never cut short or interrupted (getrandom(2)).
    ROCECOLL_CHECK(getrandom(&id, sizeof(id), 0) == sizeof(id));
  }
  return id;
}

}  // namespace rocecoll
