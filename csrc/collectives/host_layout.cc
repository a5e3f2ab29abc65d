// SPDX-License-Identifier: Apache-2.0
#include "collectives/host_layout.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "base/arithmetic.h"
#include "base/check.h"
#include "base/fnv_hash.h"

namespace rocecoll {

Status CheckRanks(uint64_t ranks) {
  if (ranks > 0 && ranks <= kMaxRanks) return {};
  return {StatusCode::kInvalidArgument,
          std::to_string(ranks) + " ranks, where a group has 1 to " + std::to_string(kMaxRanks)};
}

HostLayout::HostLayout(std::span<const uint32_t> host_of_rank)
    : host_of_(host_of_rank.size()), index_of_(host_of_rank.size()) {
  ROCECOLL_CHECK(CheckRanks(host_of_rank.size()).ok());
  std::unordered_map<uint32_t, uint32_t> number_of;
  std::vector<uint32_t> counts;
  for (Rank rank = 0; rank < ranks(); ++rank) {
    const auto [known, is_new] =
        number_of.try_emplace(host_of_rank[rank], static_cast<uint32_t>(counts.size()));
    if (is_new) counts.push_back(0);
    host_of_[rank] = known->second;
    index_of_[rank] = counts[known->second]++;
  }
  FnvHash hash;
  for (const uint32_t host : host_of_) hash.add(host);
  hash_ = hash.value();
  begin_.push_back(0);
  for (const uint32_t count : counts) {
    begin_.push_back(begin_.back() + count);
    most_dealt_blocks_ = std::max(most_dealt_blocks_, RoundUp(ranks(), count));
  }
  by_host_.resize(ranks());
  for (Rank rank = 0; rank < ranks(); ++rank) {
    by_host_[place_of(rank)] = rank;
    in_order_ = in_order_ && place_of(rank) == rank;
  }
  most_ = *std::ranges::max_element(counts);
  fewest_ = *std::ranges::min_element(counts);
  columns_ = std::min(most_, kMostColumnsOfARank * fewest_);
  if (!has_cell_for_each_rank()) return;
  owners_.assign(cells(), kNoRank);
  for (Rank rank = 0; rank < ranks(); ++rank) owners_[cell_of(rank)] = rank;
}

}  // namespace rocecoll
