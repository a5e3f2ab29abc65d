// SPDX-License-Identifier: Apache-2.0
// Who the ranks of a process group are, and their group in the engine. A backend has one for life,
// unless it is reconfigured: then it gets another, and calls begun before keep the one that they
// found.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/progress/progress.h"
#include "runtime/runtime_owner.h"
#include "torch/backend/requests.h"

namespace rocecoll::torch_adapter {

struct Membership {
  // Adds the group to the engine, with the settings of the runtime, or throws. Backend::shutdown()
  // removes it.
  Membership(const std::shared_ptr<Runtime>& runtime, GroupSpec group, AlgorithmTable algorithms);

  Rank rank() const { return spec.rank; }
  // In messages: the global rank.
  std::string global_name(Rank group_rank) const;
  // The key of the next group of these ranks: equal on all of them, and new each time. Thread-safe.
  GroupKey part_key(const std::vector<Rank>& ranks);

  const GroupSpec spec;
  const GroupFacts facts;
  const std::shared_ptr<const std::vector<Rank>> global_ranks;  // by group rank
  GroupId group = 0;
  std::atomic<uint64_t> sequence{0};          // of collectives
  std::atomic<uint64_t> message_sequence{0};  // of sends and receives
  std::atomic<bool> aborted_here{false};

 private:
  std::mutex parts_mutex_;
  std::map<std::vector<Rank>, uint64_t> parts_;  // groups made of these ranks so far
};

using MembershipPtr = std::shared_ptr<Membership>;

}  // namespace rocecoll::torch_adapter
