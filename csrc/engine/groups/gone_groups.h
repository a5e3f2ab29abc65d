// SPDX-License-Identifier: Apache-2.0
// Groups that this process has left. Calls that come too late are told the group's name. A peer
// that opens its link only afterwards has to be told, too, as there was no link that could have
// closed. Only the newest groups are remembered.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/rank.h"
#include "base/shared_vector.h"
#include "engine/groups/group_spec.h"
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

// What a rank that has left tells the others of its group.
struct PartingWord {
  SharedVector<Address> addresses;
  std::vector<std::byte> notice;
};

class GoneGroups {
 public:
  static constexpr size_t kMaxGroups = 1024;
  // Of all words together: addresses are most of their memory. The last word stays, however many it
  // has.
  static constexpr size_t kMaxAddresses = size_t{1} << 14;

  // `name` is what calls that come too late are told.
  void add(GroupId id, const Membership& member, std::string name, PartingWord word) {
    forget_word(member);
    const uint64_t turn = turns_++;
    addresses_ += word.addresses.size();
    left_.emplace(turn, Left{id, member, std::move(name), std::move(word)});
    words_.insert_or_assign(member, turn);
    if (left_.size() > kMaxGroups) {
      forget_word_of(*left_.begin());
      left_.erase(left_.begin());
    }
    for (auto it = left_.begin(); addresses_ > kMaxAddresses && it->first != turn; ++it) {
      forget_word_of(*it);
    }
  }
  // Null if the group is forgotten or never existed.
  const std::string* find_name(GroupId id) const {
    const auto found =
        std::ranges::find_if(left_, [id](const auto& entry) { return entry.second.id == id; });
    return found == left_.end() ? nullptr : &found->second.name;
  }
  // Null if the rank was never in that group, is in it, or has forgotten it.
  const PartingWord* find_word(const Membership& member) const {
    const auto found = words_.find(member);
    return found == words_.end() ? nullptr : &left_.at(found->second).word;
  }
  void forget_word(const Membership& member) {
    const auto found = words_.find(member);
    if (found == words_.end()) return;
    PartingWord& word = left_.at(found->second).word;
    addresses_ -= word.addresses.size();
    word = {};
    words_.erase(found);
  }

 private:
  struct Left {
    GroupId id = 0;
    Membership member;
    std::string name;
    PartingWord word;  // empty once forgotten
  };

  // Leaves the word of a later group with the same member alone.
  void forget_word_of(const std::pair<const uint64_t, Left>& entry) {
    const auto found = words_.find(entry.second.member);
    if (found != words_.end() && found->second == entry.first) forget_word(entry.second.member);
  }

  std::map<uint64_t, Left> left_;                                   // by turn: the oldest first
  std::unordered_map<Membership, uint64_t, MembershipHash> words_;  // the turn of each
  uint64_t turns_ = 0;
  size_t addresses_ = 0;
};

}  // namespace rocecoll
