// SPDX-License-Identifier: Apache-2.0
#include "torch/backend/membership.h"

#include <c10/util/hash.h>

#include <numeric>
#include <utility>

#include "base/bytes.h"
#include "torch/process/errors.h"

namespace rocecoll::torch_adapter {
namespace {

std::vector<Rank> GlobalRanks(const GroupSpec& group) {
  if (!group.global_ranks.empty()) return group.global_ranks;
  std::vector<Rank> ranks(group.addresses.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

GroupSpec WithSettings(GroupSpec group, const Runtime& runtime) {
  group.messenger = runtime.options().messenger;
  return group;
}

// As 128 bits of SHA-1: equal on all members, and new for each `turn`.
GroupKey DeriveKey(const GroupKey& parent, const std::vector<Rank>& members, uint64_t turn) {
  std::string seed((3 + members.size()) * sizeof(uint64_t), '\0');
  auto* bytes = reinterpret_cast<std::byte*>(seed.data());
  for (const uint64_t word : {parent.high, parent.low, turn}) {
    StoreLe(bytes, word);
    bytes += sizeof(word);
  }
  for (const uint64_t member : members) {
    StoreLe(bytes, member);
    bytes += sizeof(member);
  }
  const std::string digits = c10::sha1(seed).str();
  return {std::stoull(digits.substr(0, 16), nullptr, 16),
          std::stoull(digits.substr(16, 16), nullptr, 16)};
}

}  // namespace

Membership::Membership(const std::shared_ptr<Runtime>& runtime, GroupSpec made,
                       AlgorithmTable algorithms)
    : spec(WithSettings(std::move(made), *runtime)),
      facts{static_cast<int>(spec.rank), static_cast<int>(spec.addresses.size()),
            std::move(algorithms)},
      global_ranks(std::make_shared<const std::vector<Rank>>(GlobalRanks(spec))) {
  Result<GroupId> added = ProgressOf(*runtime).add_group(spec);
  if (!added.ok()) Throw(added.status());
  group = added.value();
}

std::string Membership::global_name(Rank group_rank) const {
  return std::to_string((*global_ranks)[group_rank]);
}

GroupKey Membership::part_key(const std::vector<Rank>& ranks) {
  const std::lock_guard lock(parts_mutex_);
  return DeriveKey(spec.key, ranks, parts_[ranks]++);
}

}  // namespace rocecoll::torch_adapter
