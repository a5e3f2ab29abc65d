// SPDX-License-Identifier: Apache-2.0
// Tells a rank, which may be nobody's neighbour, that its group has failed. Only who holds the
// group's 128-bit key can make one.
//
//   offset  size  field
//        0     4  kind, "RCAB"
//        4    16  group key, high then low
//       20     4  reporter: the rank that found it (group rank)
//       24     1  status code
//       25     -  cause, UTF-8, to the end (cut where it does not fit)
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/rank.h"
#include "base/status.h"

namespace rocecoll {

struct AbortNotice {
  uint64_t group_high = 0;
  uint64_t group_low = 0;
  Status report;  // with its reporter
};

std::vector<std::byte> EncodeAbortNotice(const AbortNotice& notice, size_t max_bytes);
std::optional<AbortNotice> ParseAbortNotice(std::span<const std::byte> bytes);

}  // namespace rocecoll
