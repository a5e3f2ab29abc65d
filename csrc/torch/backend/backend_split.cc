// SPDX-License-Identifier: Apache-2.0
// Groups of some of a group's ranks, made without the Store: the addresses are known, and every
// member derives the same key. A group that has failed can still be split and shrunk.
#include <algorithm>

#include "torch/backend/arguments.h"
#include "torch/backend/backend.h"
#include "torch/interface/c10d_interface.h"

namespace rocecoll::torch_adapter {
namespace {

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
  const MembershipPtr whole = membership();
  CheckMembers("split", members, whole->facts.size);
  return part("split", *whole, members, options);
}

c10::intrusive_ptr<c10d::Backend> Backend::shrink(
    const std::vector<int64_t>& ranks_to_exclude, int shrink_flags,
    const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  constexpr int kShrinkAbort = 1;  // torch.distributed.SHRINK_ABORT
  const std::vector<Rank> excluded(ranks_to_exclude.begin(), ranks_to_exclude.end());
  const MembershipPtr whole = membership();
  CheckMembers("shrink", excluded, whole->facts.size);
  std::vector<Rank> members;
  for (Rank rank = 0; rank < whole->facts.ranks(); ++rank) {
    if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end()) {
      members.push_back(rank);
    }
  }
  CheckMembers("shrink", members, whole->facts.size);
  if ((shrink_flags & kShrinkAbort) != 0) abort();
  auto rest = part("shrink", *whole, members, options);
  if (rest == nullptr) {
    Refuse("shrink",
           "rank " + std::to_string(whole->rank()) + " is excluded, and must not call it");
  }
  return rest;
}

c10::intrusive_ptr<Backend> Backend::part(
    const char* function, Membership& whole, const std::vector<Rank>& members,
    const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const Options& inherited = *options_;
  const auto self = std::find(members.begin(), members.end(), whole.rank());
  if (self == members.end()) return nullptr;
  if (const auto* chosen = dynamic_cast<const Options*>(options.get());
      chosen != nullptr && chosen->values != inherited.values) {
    Refuse(function, "a part of a group keeps its " + inherited.text() + ", " + chosen->text() +
                         " were given: make it with new_group() instead");
  }
  auto own = c10::make_intrusive<Options>(inherited);
  own->timeout = options ? options->timeout : timeout_.load();
  if (options) own->group_desc = DescriptionOf(*options);
  GroupSpec group;
  group.key = whole.part_key(members);
  group.name = options ? NameOf(*options) : "";
  if (group.name.empty()) group.name = whole.spec.name + ":" + function;
  group.rank = static_cast<Rank>(self - members.begin());
  std::vector<GroupMember> chosen_members;
  for (Rank member : members) {
    chosen_members.push_back(whole.spec.member(member));
    group.global_ranks.push_back((*whole.global_ranks)[member]);
  }
  group.set_members(std::move(chosen_members));
  group.timeout = Saturated(own->timeout);
  return c10::make_intrusive<Backend>(runtime_, std::move(group), whole.facts.algorithms,
                                      std::move(own));
}

}  // namespace rocecoll::torch_adapter
