// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace rocecoll {

// A secret that all ranks of a group share and no other process knows. Never reused, not even by
// the group's next incarnation.
struct GroupKey {
  static constexpr size_t kWireBytes = 16;
  uint64_t high = 0;
  uint64_t low = 0;

  void store(ByteWriter& to) const {
    to.Write(high);
    to.Write(low);
  }
  static GroupKey load(ByteReader& from) {
    const auto high = from.Read<uint64_t>();
    return {high, from.Read<uint64_t>()};
  }
  friend bool operator==(const GroupKey&, const GroupKey&) = default;
};

}  // namespace rocecoll
