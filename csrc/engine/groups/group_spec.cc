// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/group_spec.h"

#include <utility>

#include "base/named_status.h"
#include "collectives/host_layout.h"

namespace rocecoll {

void GroupSpec::set_members(std::vector<GroupMember> members) {
  std::vector<Address> reached;
  std::vector<std::string> shown;
  hosts.clear();
  for (GroupMember& member : members) {
    reached.push_back(std::move(member.address));
    shown.push_back(std::move(member.known_as));
    hosts.push_back(member.host);
  }
  addresses = std::move(reached);
  known_as = std::move(shown);
}

GroupMember GroupSpec::member(Rank group_rank) const {
  return {addresses[group_rank],
          known_as.empty() ? addresses[group_rank].text() : known_as[group_rank],
          hosts.empty() ? 0 : hosts[group_rank]};
}

Status CheckSpec(const GroupSpec& spec) {
  const auto invalid = [&](const std::string& what) {
    return NamedStatus(StatusCode::kInvalidArgument, "group \"" + spec.name + "\": " + what);
  };
  if (Status status = CheckRanks(spec.addresses.size()); !status.ok()) {
    return invalid(status.message());
  }
  if (spec.rank >= spec.addresses.size()) {
    return invalid("rank " + std::to_string(spec.rank) + " of " +
                   std::to_string(spec.addresses.size()));
  }
  if (!spec.global_ranks.empty() && spec.global_ranks.size() != spec.addresses.size()) {
    return invalid(std::to_string(spec.global_ranks.size()) + " global ranks for " +
                   std::to_string(spec.addresses.size()) + " ranks");
  }
  if (!spec.hosts.empty() && spec.hosts.size() != spec.addresses.size()) {
    return invalid(std::to_string(spec.hosts.size()) + " hosts named for " +
                   std::to_string(spec.addresses.size()) + " ranks");
  }
  if (!spec.known_as.empty() && spec.known_as.size() != spec.addresses.size()) {
    return invalid(std::to_string(spec.known_as.size()) + " addresses to show for " +
                   std::to_string(spec.addresses.size()) + " ranks");
  }
  if (spec.timeout <= Duration{0}) return invalid("the timeout must be positive");
  return {};
}

}  // namespace rocecoll
