// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/random.h"
#include "base/range_set.h"
#include "transport/datagram/reliability/frame_wire.h"
#include "transport/transport.h"

namespace rocecoll {

// Memory that the peer may write. Each exposed slice is a region, which has an id that is never
// reused and a random key that protects it. Only this class writes into lent memory.
class Regions {
 public:
  static constexpr int kIndexBits = 20;
  static constexpr size_t kMaxRegions = size_t{1} << kIndexBits;
  // Enough for a million exposures per second, all in one slot, for half a year.
  static constexpr uint64_t kMaxGeneration = UINT64_MAX >> kIndexBits;

  // `first_generation`: the first one of every slot; at least 1.
  explicit Regions(uint64_t seed, uint64_t first_generation = 1)
      : random_(seed), first_generation_(first_generation) {}

  RemoteSlice expose(LocalSlice into, uint32_t token);
  // Checked: nothing has landed in it yet.
  void unexpose(const RemoteSlice& slice);

  // False if it names a region that was never exposed, lies outside of its region, or has the wrong
  // key.
  bool is_valid(const DataField& data) const;
  // Copies the bytes that are still missing; ignores data for a region that is complete or no
  // longer exposed. Returns the region's token if this completes it. Checked: is_valid().
  std::optional<uint32_t> write(const DataField& data);
  // Ends the exposure of all regions.
  void clear();

 private:
  // A region's id has the slot's index in the lower kIndexBits, and the generation above.
  struct Slot {
    uint64_t generation = 1;
    bool exposed = false;
    uint32_t token = 0;
    uint64_t key = 0;
    LocalSlice into;
    RangeSet landed;
  };
  void release(uint32_t index);

  Random random_;
  uint64_t first_generation_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

}  // namespace rocecoll
