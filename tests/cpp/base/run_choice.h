// SPDX-License-Identifier: Apache-2.0
// What a run selects if there is more than it has time for: the nightly run takes everything, and
// any other run takes a part that its seed chooses, so that another run takes another part and each
// can be repeated.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/check.h"
#include "base/random.h"

namespace rocecoll {

inline uint64_t NumberOfEnvironment(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

inline bool IsNightly() { return NumberOfEnvironment("TEST_NIGHTLY", 0) != 0; }

// A seed of 32 bits. ./scripts/test derives it from the commit and prints it.
inline uint64_t RunSeed() { return NumberOfEnvironment("TEST_SEED", 1); }

// Chooses `count` of the numbers from `first` to before `last`, in order and without repeats.
inline std::vector<uint64_t> Choose(uint64_t count, uint64_t first, uint64_t last, uint64_t seed) {
  ROCECOLL_CHECK(count <= last - first);
  Random random(seed);
  std::vector<uint64_t> chosen;
  for (uint64_t number = first; chosen.size() < count; ++number) {
    if (random.below(last - number) < count - chosen.size()) chosen.push_back(number);
  }
  return chosen;
}

// Chooses as many numbers as this run takes.
inline std::vector<uint64_t> ChooseForRun(uint64_t count, uint64_t first, uint64_t last) {
  return Choose(IsNightly() ? last - first : count, first, last, RunSeed());
}

}  // namespace rocecoll
