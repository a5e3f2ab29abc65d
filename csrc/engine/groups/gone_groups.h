// SPDX-License-Identifier: Apache-2.0
// Groups that this process has left: a peer that opens its link only then has to be told, as there
// was none that could have closed. The newest are remembered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/rank.h"
#include "base/shared_vector.h"
#include "transport/address.h"
#include "transport/group_key.h"

namespace rocecoll {

// A group of this process: one process may hold several ranks of one group (tests do).
struct Membership {
  GroupKey group;
  Rank rank = 0;
  friend bool operator==(const Membership&, const Membership&) = default;
};
struct MembershipHash {
  size_t operator()(const Membership& of) const {
    return HashWords({of.group.high, of.group.low, of.rank});
  }
};

// The last word of a rank to those of its group.
struct PartingWord {
  SharedVector<Address> addresses;
  std::vector<std::byte> notice;
};

class GoneGroups {
 public:
  static constexpr size_t kMaxGroups = 1024;
  // Of all groups: what they hold most of. The last one stays, whatever it has.
  static constexpr size_t kMaxAddresses = size_t{1} << 14;

  void add(const Membership& member, PartingWord word) {
    forget(member);
    addresses_ += word.addresses.size();
    words_.insert_or_assign(member, std::move(word));
    order_.push_back(member);
    while (order_.size() > 1 && (order_.size() > kMaxGroups || addresses_ > kMaxAddresses)) {
      forget(Membership(order_.front()));
    }
  }
  // Null: it was never in that group, is in it, or has forgotten it.
  const PartingWord* find(const Membership& member) const {
    const auto found = words_.find(member);
    return found == words_.end() ? nullptr : &found->second;
  }
  void forget(const Membership& member) {
    const auto found = words_.find(member);
    if (found == words_.end()) return;
    addresses_ -= found->second.addresses.size();
    words_.erase(found);
    std::erase(order_, member);
  }
  size_t size() const { return order_.size(); }

 private:
  std::unordered_map<Membership, PartingWord, MembershipHash> words_;
  std::deque<Membership> order_;  // oldest first
  size_t addresses_ = 0;
};

}  // namespace rocecoll
