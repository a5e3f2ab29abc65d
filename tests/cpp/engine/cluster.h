// SPDX-License-Identifier: Apache-2.0
// Engines of many ranks over the link-level simulator, in one thread and virtual time.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "engine/engine.h"
#include "transport/sim/sim_fabric.h"
#include "transport/sim/sim_transport.h"

namespace rocecoll {

struct ClusterOptions {
  uint32_t ranks = 2;
  EngineOptions engine;
  MessengerOptions messenger;
  SimFabricOptions fabric;
  Duration timeout = std::chrono::minutes(30);
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options)
      : options_(options), fabric_(FabricOptions(options)), completed_(options.ranks) {
    for (Rank r = 0; r < options.ranks; ++r) {
      engines_.push_back(std::make_unique<Engine>(fabric_.transport(r), options.engine));
    }
    group_ = add_group("default", 1);
  }

  // A group of all ranks; the same id on each of them.
  GroupId add_group(const std::string& name, uint64_t key) {
    std::vector<Address> addresses;
    for (Rank r = 0; r < ranks(); ++r) addresses.push_back(fabric_.transport(r).address());
    GroupId id = 0;
    for (Rank r = 0; r < ranks(); ++r) {
      GroupSpec spec;
      spec.name = name;
      spec.key_high = key;
      spec.key_low = ~key;
      spec.rank = r;
      spec.addresses = addresses;
      spec.timeout = options_.timeout;
      spec.messenger = options_.messenger;
      auto added = engines_[r]->add_group(std::move(spec));
      EXPECT_TRUE(added.ok()) << added.status().message();
      id = added.value();
    }
    return id;
  }

  uint32_t ranks() const { return options_.ranks; }
  GroupId group() const { return group_; }
  Engine& engine(Rank rank) { return *engines_[rank]; }
  SimFabric& fabric() { return fabric_; }

  // The operation, though it may have been refused: `status` says so.
  OperationPtr submit(Rank rank, OperationSpec spec, GroupId group = 0, Status* status = nullptr) {
    auto operation = std::make_shared<Operation>(std::move(spec), nullptr);
    Status submitted =
        engines_[rank]->submit(fabric_.now(), group == 0 ? group_ : group, operation);
    if (status != nullptr) {
      *status = submitted;
    } else {
      EXPECT_TRUE(submitted.ok()) << "rank " << rank << ": " << submitted.message();
    }
    take_completed(rank);
    return operation;
  }

  bool run(const std::function<bool()>& done, Duration limit = std::chrono::minutes(60)) {
    return RunUntil(
        fabric_, [this](uint32_t rank, Instant now) { return step(rank, now); }, done, limit);
  }
  bool run_until_done(const std::vector<OperationPtr>& operations,
                      Duration limit = std::chrono::minutes(60)) {
    return run(
        [&] {
          while (next_to_check_ < operations.size() && is_done(operations[next_to_check_])) {
            ++next_to_check_;
          }
          if (next_to_check_ < operations.size()) return false;
          next_to_check_ = 0;
          return true;
        },
        limit);
  }
  void settle(Duration time) {
    run([] { return false; }, time);
  }
  bool is_done(const OperationPtr& operation) const { return done_.contains(operation.get()); }
  // In order of completion.
  const std::vector<OperationPtr>& completed(Rank rank) const { return completed_[rank]; }

 private:
  static SimFabricOptions FabricOptions(const ClusterOptions& options) {
    SimFabricOptions fabric = options.fabric;
    fabric.endpoints = options.ranks;
    return fabric;
  }
  Instant step(Rank rank, Instant now) {
    while (engines_[rank]->step(now)) take_completed(rank);
    take_completed(rank);
    return engines_[rank]->next_deadline();
  }
  void take_completed(Rank rank) {
    for (OperationPtr& operation : engines_[rank]->take_completed()) {
      EXPECT_TRUE(done_.insert(operation.get()).second) << "completed twice";
      completed_[rank].push_back(std::move(operation));
    }
  }

  const ClusterOptions options_;
  SimFabric fabric_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<std::vector<OperationPtr>> completed_;
  std::unordered_set<const Operation*> done_;
  size_t next_to_check_ = 0;
  GroupId group_ = 0;
};

}  // namespace rocecoll
