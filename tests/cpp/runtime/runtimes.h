// SPDX-License-Identifier: Apache-2.0
// Several ranks of one group, each with a runtime of its own, over loopback.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/runtime.h"

namespace rocecoll {

class Runtimes {
 public:
  explicit Runtimes(uint32_t ranks, RuntimeOptions options = {}) {
    for (Rank r = 0; r < ranks; ++r) {
      options.fault.seed = r + 1;
      auto started = StartRuntime(options);
      EXPECT_TRUE(started.ok()) << started.status().message();
      runtimes_.push_back(started.take());
    }
    messenger_ = options.messenger;
    groups_ = add_group("default", 1, std::chrono::seconds(300));
  }
  explicit Runtimes(std::vector<std::unique_ptr<Progress>> started)
      : runtimes_(std::move(started)) {
    groups_ = add_group("default", 1, std::chrono::seconds(300));
  }

  std::vector<GroupId> add_group(const std::string& name, uint64_t key, Duration timeout) {
    std::vector<Address> addresses;
    for (const auto& runtime : runtimes_) addresses.push_back(runtime->address());
    std::vector<GroupId> ids;
    for (Rank r = 0; r < ranks(); ++r) {
      GroupSpec spec;
      spec.name = name;
      spec.key = {key, runtimes_[0]->address().bytes().size()};
      spec.rank = r;
      spec.addresses = addresses;
      spec.timeout = timeout;
      spec.messenger = messenger_;
      auto added = runtimes_[r]->add_group(std::move(spec));
      EXPECT_TRUE(added.ok()) << added.status().message();
      ids.push_back(added.value());
    }
    return ids;
  }

  uint32_t ranks() const { return static_cast<uint32_t>(runtimes_.size()); }
  Progress& operator[](Rank rank) { return *runtimes_[rank]; }
  GroupId group(Rank rank) const { return groups_[rank]; }
  void end(Rank rank) { runtimes_[rank].reset(); }

  // Sums `data` in place over all ranks.
  OperationPtr all_reduce(std::vector<int32_t>& data, std::shared_ptr<void> owner = nullptr) const {
    OperationSpec spec;
    spec.collective = Collective::kAllreduce;
    spec.type = DataType::kInt32;
    spec.input = {data.data(), Partition::Even(data.size(), ranks())};
    spec.output = spec.input;
    return std::make_shared<Operation>(std::move(spec), std::move(owner));
  }

 private:
  std::vector<std::unique_ptr<Progress>> runtimes_;
  std::vector<GroupId> groups_;
  MessengerOptions messenger_;
};

}  // namespace rocecoll
