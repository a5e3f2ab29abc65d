// SPDX-License-Identifier: Apache-2.0
// Which ranks a group has, and how they reach each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/rank.h"
#include "base/shared_vector.h"
#include "base/status.h"
#include "base/time.h"
#include "messenger/messenger.h"
#include "transport/transport.h"

namespace rocecoll {

using GroupId = uint32_t;  // of an engine, which gives it to no other group

// A rank of a group, as whoever makes the group knows it.
struct GroupMember {
  Address address;       // as this rank reaches it
  std::string known_as;  // its address as other hosts reach it, for messages
  uint32_t host = 0;     // the same number for ranks that share a host
};

struct GroupSpec {
  std::string name;  // for messages
  GroupKey key;
  Rank rank = 0;
  SharedVector<Address> addresses;  // by group rank, as this rank reaches them
  // By group rank, as other hosts reach them, for messages; empty: as this rank does.
  SharedVector<std::string> known_as;
  std::vector<Rank> global_ranks;  // by group rank; empty: the same numbers
  // By group rank: equal numbers for ranks that share a host. Empty: all share one.
  std::vector<uint32_t> hosts;
  Duration timeout = std::chrono::minutes(30);
  MessengerOptions messenger;

  // Addresses, what they are known as, and hosts, of all ranks in their order.
  void set_members(std::vector<GroupMember> members);
  GroupMember member(Rank group_rank) const;

  Rank global_rank(Rank group_rank) const {
    return group_rank < global_ranks.size() ? global_ranks[group_rank] : group_rank;
  }
};

// kInvalidArgument, naming the group, where its parts do not fit each other or a group's limits.
Status CheckSpec(const GroupSpec& spec);

}  // namespace rocecoll
