// SPDX-License-Identifier: Apache-2.0
// Groups of some of a group's ranks, made without the Store: the addresses are known, and every
// member derives the same key. A group that has failed can still be split and shrunk.
#include <c10/util/hash.h>

#include <algorithm>
#include <numeric>

#include "base/bytes.h"
#include "torch/backend/arguments.h"
#include "torch/backend/backend.h"
#include "torch/interface/c10d_interface.h"

namespace rocecoll::torch_adapter {
namespace {

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

void CheckMembers(const char* function, const std::vector<Rank>& members, int size) {
  if (members.empty()) Refuse(function, "no rank would be left");
  std::vector<Rank> sorted = members;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.back() >= static_cast<Rank>(size)) {
    Refuse(function, "there is no rank " + std::to_string(static_cast<int32_t>(sorted.back())) +
                         " in a group of " + std::to_string(size));
  }
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) Refuse(function, "rank " + std::to_string(*twice) + " is named twice");
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> Backend::split(
    const c10::intrusive_ptr<c10d::Store>& /*store*/, const std::vector<int>& ranks,
    const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const std::vector<Rank> members(ranks.begin(), ranks.end());
  CheckMembers("split", members, size_);
  return part("split", members, options);
}

c10::intrusive_ptr<c10d::Backend> Backend::shrink(
    const std::vector<int64_t>& ranks_to_exclude, int shrink_flags,
    const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  constexpr int kShrinkAbort = 1;  // torch.distributed.SHRINK_ABORT
  const std::vector<Rank> excluded(ranks_to_exclude.begin(), ranks_to_exclude.end());
  CheckMembers("shrink", excluded, size_);
  std::vector<Rank> members;
  for (Rank rank = 0; rank < facts_.ranks(); ++rank) {
    if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end()) {
      members.push_back(rank);
    }
  }
  CheckMembers("shrink", members, size_);
  if ((shrink_flags & kShrinkAbort) != 0) abort();
  auto rest = part("shrink", members, options);
  if (rest == nullptr) {
    Refuse("shrink", "rank " + std::to_string(rank_) + " is excluded, and must not call it");
  }
  return rest;
}

c10::intrusive_ptr<Backend> Backend::part(
    const char* function, const std::vector<Rank>& members,
    const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const Options& inherited = *options_;
  const auto self = std::find(members.begin(), members.end(), static_cast<Rank>(rank_));
  if (self == members.end()) return nullptr;
  if (const auto* chosen = dynamic_cast<const Options*>(options.get());
      chosen != nullptr && chosen->values != inherited.values) {
    Refuse(function, "a part of a group keeps its " + inherited.text() + ", " + chosen->text() +
                         " were given: make it with new_group() instead");
  }
  auto own = c10::make_intrusive<Options>(inherited);
  own->timeout = options ? options->timeout : timeout_.load();
  own->group_name = options ? NameOf(*options) : "";
  if (own->group_name.empty()) own->group_name = spec_.name + ":" + function;
  if (options) own->group_desc = DescriptionOf(*options);
  GroupSpec group;
  {
    std::lock_guard lock(parts_mutex_);
    group.key = DeriveKey(spec_.key, members, parts_[members]++);
  }
  group.name = own->group_name;
  group.rank = static_cast<Rank>(self - members.begin());
  own->global_ranks_in_group.clear();
  std::vector<GroupMember> chosen_members;
  for (Rank member : members) {
    chosen_members.push_back(spec_.member(member));
    group.global_ranks.push_back((*global_ranks_)[member]);
    own->global_ranks_in_group.push_back(group.global_ranks.back());
  }
  group.set_members(std::move(chosen_members));
  group.timeout = Saturated(own->timeout);
  group.messenger = spec_.messenger;
  return c10::make_intrusive<Backend>(runtime_, std::move(group), facts_.algorithms,
                                      std::move(own));
}

}  // namespace rocecoll::torch_adapter
