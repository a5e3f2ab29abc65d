// SPDX-License-Identifier: Apache-2.0
// Datagrams between the ranks of a group that need no link. Only a process that holds the group's
// 128-bit key can make one. All begin alike:
//
//   offset  size  field
//        0     4  kind, "RCAB", "RCRC" or "RCGO"
//        4    16  group key, high then low
//       20     4  group rank
//
// RCAB tells a rank, which may have no link to the sender, that its group has failed. The group
// rank is the one that found it:
//
//       24     1  status code
//       25     -  cause, UTF-8, to the end (cut where it does not fit)
//
// RCRC asks a rank whether it has called a collective, or answers. The group rank is the sender's:
//
//       24     1  0 question, 1 not called, 2 called
//       25     8  sequence number of the collective
//
// RCGO answers a rank that opens a link to one that has left the group in good order and has
// nothing more to deliver. The group rank is the one that has left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/rank.h"
#include "base/status.h"
#include "transport/group_key.h"

namespace rocecoll {

struct AbortNotice {
  GroupKey group;
  Status report;  // has a reporter
};

struct RollCallNotice {
  enum class Kind : uint8_t { kQuestion, kNotCalled, kCalled };

  GroupKey group;
  Rank from = 0;
  Kind kind = Kind::kQuestion;
  uint64_t sequence = 0;
};

struct LeftNotice {
  GroupKey group;
  Rank from = 0;
};

using Notice = std::variant<AbortNotice, RollCallNotice, LeftNotice>;

std::vector<std::byte> Encode(const AbortNotice& notice, size_t max_bytes);
std::vector<std::byte> Encode(const RollCallNotice& notice);
std::vector<std::byte> Encode(const LeftNotice& notice);
std::optional<Notice> ParseNotice(std::span<const std::byte> bytes);

}  // namespace rocecoll
