// SPDX-License-Identifier: Apache-2.0
// Engines of many ranks in one thread, over any transports.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace rocecoll {

class EngineCluster {
 public:
  virtual ~EngineCluster() = default;
  virtual Instant now() const = 0;
  // Runs all engines until `done`, at most for `limit`. True if done.
  virtual bool run(const std::function<bool()>& done,
                   Duration limit = std::chrono::minutes(60)) = 0;

  // A group of all ranks; the same id on each of them.
  GroupId add_group(const std::string& name, uint64_t key) {
    GroupId id = 0;
    for (Rank r = 0; r < ranks(); ++r) id = add_member(name, key, r, hosts_);
    return id;
  }
  // One rank's part of a group of all.
  GroupId add_member(const std::string& name, uint64_t key, Rank rank,
                     const std::vector<uint32_t>& hosts) {
    GroupSpec spec;
    spec.name = name;
    spec.key = {key, ~key};
    spec.rank = rank;
    spec.addresses = addresses_;
    spec.hosts = hosts;
    return add_spec(rank, std::move(spec));
  }
  // One rank's part of a group of these, in this order. Ids may differ between ranks.
  GroupId add_part(const std::string& name, uint64_t key, Rank rank,
                   const std::vector<Rank>& members) {
    GroupSpec spec;
    spec.name = name;
    spec.key = {key, ~key};
    std::vector<Address> addresses;
    for (const Rank member : members) {
      if (member == rank) spec.rank = static_cast<Rank>(addresses.size());
      addresses.push_back(addresses_[member]);
    }
    spec.addresses = std::move(addresses);
    spec.global_ranks = members;
    return add_spec(rank, std::move(spec));
  }

  uint32_t ranks() const { return static_cast<uint32_t>(engines_.size()); }
  GroupId group() const { return group_; }
  Engine& engine(Rank rank) { return *engines_[rank]; }

  // The operation, though it may have been refused: `status` says so.
  OperationPtr submit(Rank rank, OperationSpec spec, GroupId group = 0, Status* status = nullptr) {
    auto operation = std::make_shared<Operation>(std::move(spec), nullptr);
    Status submitted = engines_[rank]->submit(now(), group == 0 ? group_ : group, operation);
    if (status != nullptr) {
      *status = submitted;
    } else {
      EXPECT_TRUE(submitted.ok()) << "rank " << rank << ": " << submitted.message();
    }
    take_completed(rank);
    return operation;
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
  // For runs of millions of operations: drops what it knows of those that are complete.
  void forget_completed() {
    done_.clear();
    for (auto& completed : completed_) completed.clear();
  }
  // In order of completion.
  const std::vector<OperationPtr>& completed(Rank rank) const { return completed_[rank]; }

 protected:
  EngineCluster(const MessengerOptions& messenger, Duration timeout,
                std::vector<uint32_t> hosts = {})
      : messenger_(messenger), timeout_(timeout), hosts_(std::move(hosts)) {}

  // Once for each rank, then start().
  void add_rank(Transport& transport, const EngineOptions& options) {
    addresses_.push_back(transport.address());
    engines_.push_back(std::make_unique<Engine>(transport, options));
    completed_.emplace_back();
  }
  void start() { group_ = add_group("default", 1); }
  // Before the transport goes.
  void remove_rank(Rank rank) { engines_[rank].reset(); }
  // A new process in the place of one that has gone, in no group yet.
  void replace_rank(Rank rank, Transport& transport, const EngineOptions& options) {
    addresses_[rank] = transport.address();
    engines_[rank] = std::make_unique<Engine>(transport, options);
    // Ids count on, so that a later group has the same one on all ranks.
    for (GroupId id = 0; id < last_group_; ++id) {
      GroupSpec alone;
      alone.addresses = {addresses_[rank]};
      engines_[rank]->remove_group(engines_[rank]->add_group(alone).value());
    }
  }
  bool has_engine(Rank rank) const { return engines_[rank] != nullptr; }
  // Returns when it wants to be called again at the latest.
  Instant step(Rank rank, Instant time) {
    while (engines_[rank]->step(time)) take_completed(rank);
    take_completed(rank);
    return engines_[rank]->next_deadline();
  }
  void take_completed(Rank rank) {
    for (OperationPtr& operation : engines_[rank]->take_completed()) {
      EXPECT_TRUE(done_.insert(operation.get()).second) << "completed twice";
      completed_[rank].push_back(std::move(operation));
    }
  }

 private:
  GroupId add_spec(Rank rank, GroupSpec spec) {
    spec.timeout = timeout_;
    spec.messenger = messenger_;
    auto added = engines_[rank]->add_group(std::move(spec));
    EXPECT_TRUE(added.ok()) << added.status().message();
    last_group_ = added.value();
    return last_group_;
  }

  const MessengerOptions messenger_;
  const Duration timeout_;
  const std::vector<uint32_t> hosts_;
  std::vector<Address> addresses_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<std::vector<OperationPtr>> completed_;
  std::unordered_set<const Operation*> done_;
  size_t next_to_check_ = 0;
  GroupId group_ = 0;
  GroupId last_group_ = 0;
};

}  // namespace rocecoll
