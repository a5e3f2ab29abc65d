// SPDX-License-Identifier: Apache-2.0
// Ranks that come and go, as rocecoll.reconfigure() has the core do it: each member of an attempt
// makes a group for the attempt alone and runs a barrier in it. Where the barrier passes, its old
// group, the home, ends, and a new home of the attempt's members takes its place; where it fails,
// the home stays. Every rank goes at its own pace.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "engine/engine_cluster.h"

namespace rocecoll {

using Members = std::vector<Rank>;

class Epochs {
 public:
  // All ranks of the cluster begin with its default group as their home.
  explicit Epochs(EngineCluster& cluster) : cluster_(cluster), parts_(cluster.ranks()) {
    for (Part& part : parts_) {
      part.home = cluster.group();
      part.home_members.resize(parts_.size());
      std::iota(part.home_members.begin(), part.home_members.end(), Rank{0});
    }
  }

  // The rank comes to attempt `uuid`, which was given these members.
  void come(Rank rank, uint64_t uuid, const Members& members, Duration timeout) {
    Part& part = parts_[rank];
    part.uuid = uuid;
    part.members = members;
    part.attempt = cluster_.add_part("reconfigure", Key(uuid, members, 0), rank, members);
    OperationSpec spec;
    spec.timeout = timeout;
    part.pending = cluster_.submit(rank, std::move(spec), part.attempt);
  }
  void all_come(uint64_t uuid, const Members& members, Duration timeout) {
    for (const Rank rank : members) come(rank, uuid, members, timeout);
  }
  // An allreduce in the rank's home.
  void sum(Rank rank) {
    Part& part = parts_[rank];
    part.input.assign(kElements, value(part, rank));
    part.output.assign(kElements, -1);
    OperationSpec spec;
    spec.collective = Collective::kAllreduce;
    spec.type = DataType::kInt32;
    const auto ranks = static_cast<uint32_t>(part.home_members.size());
    spec.input = {part.input.data(), Partition::Even(kElements, ranks)};
    spec.output = {part.output.data(), Partition::Even(kElements, ranks)};
    part.pending = cluster_.submit(rank, std::move(spec), part.home, &part.result);
    if (!part.result.ok()) part.pending.reset();
  }
  // The process is gone, with all that it was doing.
  void forget(Rank rank) { parts_[rank] = {}; }

  // Runs until every rank has what it waits for. False: some rank waits for longer than `limit`.
  bool run(Duration limit) {
    const Instant end = cluster_.now() + limit;
    while (busy()) {
      if (cluster_.now() >= end) return false;
      cluster_.run([this] { return advance(); }, end - cluster_.now());
    }
    return true;
  }
  bool busy() const {
    return std::ranges::any_of(parts_, [](const Part& part) { return part.pending != nullptr; });
  }
  // What the rank's last attempt or sum came to.
  const Status& result(Rank rank) const { return parts_[rank].result; }
  // Attempts that made the rank's home, 0: the first.
  uint64_t home_uuid(Rank rank) const { return parts_[rank].home_uuid; }
  GroupId home(Rank rank) const { return parts_[rank].home; }

  // In each round, before what has completed is looked at.
  std::function<void()> on_round = [] {};
  // The rank has what it waited for. May come() or sum() again.
  std::function<void(Rank)> on_result = [](Rank) {};

 private:
  static constexpr size_t kElements = 100;
  struct Part {
    GroupId home = 0;  // 0: none
    uint64_t home_uuid = 0;
    Members home_members;
    uint64_t uuid = 0;
    Members members;
    GroupId attempt = 0;  // 0: the pending operation is a sum
    OperationPtr pending;
    Status result;
    std::vector<int32_t> input, output;
  };

  // As the package derives keys from the uuid and the handles.
  static uint64_t Key(uint64_t uuid, const Members& members, uint64_t kind) {
    uint64_t key = HashWords({uuid, kind, members.size()});
    for (const Rank member : members) key = HashWords({key, member + uint64_t{1}});
    return key;
  }
  static int32_t value(const Part& part, Rank rank) {
    return static_cast<int32_t>(part.home_uuid % 100000 * 100 + rank + 1);
  }

  // True if a rank has what it waited for.
  bool advance() {
    on_round();
    Members ready;
    for (Rank rank = 0; rank < parts_.size(); ++rank) {
      const OperationPtr& pending = parts_[rank].pending;
      if (pending != nullptr && cluster_.is_done(pending)) ready.push_back(rank);
    }
    if (ready.empty()) return false;
    // Before another operation lies where one of these did.
    cluster_.forget_completed();
    for (const Rank rank : ready) {
      Part& part = parts_[rank];
      part.result = std::exchange(part.pending, {})->status();
      part.attempt == 0 ? check_sum(rank) : end_attempt(rank);
    }
    for (const Rank rank : ready) on_result(rank);
    return true;
  }
  void check_sum(Rank rank) {
    const Part& part = parts_[rank];
    if (!part.result.ok()) return;
    int32_t expected = 0;
    for (const Rank member : part.home_members) expected += value(part, member);
    for (const int32_t element : part.output) {
      ASSERT_EQ(element, expected) << "rank " << rank << " in home " << part.home_uuid;
    }
  }
  void end_attempt(Rank rank) {
    Part& part = parts_[rank];
    Engine& engine = cluster_.engine(rank);
    if (part.result.ok()) {
      if (part.home != 0) engine.remove_group(part.home);
      part.home = cluster_.add_part("0", Key(part.uuid, part.members, 1), rank, part.members);
      part.home_uuid = part.uuid;
      part.home_members = part.members;
    } else {
      engine.abort(part.attempt, Status(StatusCode::kAborted, "the attempt was aborted"));
    }
    engine.remove_group(std::exchange(part.attempt, 0));
  }

  EngineCluster& cluster_;
  std::vector<Part> parts_;
};

}  // namespace rocecoll
