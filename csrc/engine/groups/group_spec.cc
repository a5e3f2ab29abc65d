// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/group_spec.h"

#include "base/named_status.h"
#include "collectives/host_layout.h"

namespace rocecoll {

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
