// SPDX-License-Identifier: Apache-2.0
// One collective on all ranks of a cluster: its buffers, and what they must hold in the end.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/cluster.h"
#include "engine/fake_device.h"

namespace rocecoll {

struct CallSpec {
  Collective collective = Collective::kAllreduce;
  uint64_t elements = 0;  // of one rank's whole vector; alltoall, gather, scatter: rounded up
  Rank root = 0;
  bool in_place = false;
  bool uniform = true;         // false: the v-variant, with blocks of different sizes
  uint64_t part_elements = 1;  // of which the blocks of v-variants hold 0 to 6
  std::string_view algorithm = {};
  std::function<DeviceScript(Rank)> device = {};  // set: buffers lie on devices that answer so
  std::function<std::shared_ptr<LaneBudget>(Rank)> budget = {};  // of these; unset: no limit
};

inline bool MayBeInPlace(Collective collective) {
  return collective == Collective::kAllreduce || collective == Collective::kReduce;
}

class Call {
 public:
  Call(EngineCluster& cluster, const CallSpec& spec, GroupId group = 0)
      : cluster_(cluster), spec_(spec), group_(group), ranks_(cluster.ranks()) {
    inputs_.resize(ranks_);
    outputs_.resize(ranks_);
    originals_.resize(ranks_);
    devices_.resize(ranks_);
  }

  // Calls it on every rank.
  void submit_all() {
    for (Rank rank = 0; rank < ranks_; ++rank) submit(rank);
  }
  // `refused`: see EngineCluster::submit().
  OperationPtr submit(Rank rank, Status* refused = nullptr) {
    OperationSpec op;
    op.collective = spec_.collective;
    op.type = DataType::kInt32;
    op.root = spec_.root;
    op.uniform = spec_.uniform;
    op.algorithm = spec_.algorithm;
    std::vector<int32_t>& input = inputs_[rank];
    std::vector<int32_t>& output = outputs_[rank];
    op.input.partition = input_partition(rank);
    op.output.partition = output_partition(rank);
    input.resize(op.input.partition.total());
    output.resize(op.output.partition.total(), -1);
    for (size_t i = 0; i < input.size(); ++i) input[i] = value(rank, i);
    if (spec_.collective == Collective::kBroadcast && rank == spec_.root) {
      for (size_t i = 0; i < output.size(); ++i) output[i] = value(rank, i);
    }
    originals_[rank] = input;
    op.input.data = input.data();
    op.output.data = lies_in_place(rank) ? input.data() : output.data();
    if (spec_.device) {
      devices_[rank] = std::make_unique<FakeDevice>(spec_.device(rank));
      if (spec_.budget) devices_[rank]->share(spec_.budget(rank));
      devices_[rank]->mirror(input);
      devices_[rank]->mirror(output);
      op.staged = devices_[rank].get();
    }
    operations_.push_back(cluster_.submit(rank, std::move(op), group_, refused));
    return operations_.back();
  }

  const std::vector<OperationPtr>& operations() const { return operations_; }
  const FakeDevice& device(Rank rank) const { return *devices_[rank]; }
  bool run() { return cluster_.run_until_done(operations_); }

  void check() const {
    for (const OperationPtr& operation : operations_) {
      ASSERT_TRUE(operation->status().ok()) << operation->status().message();
    }
    for (Rank rank = 0; rank < ranks_; ++rank) {
      if (devices_[rank]) devices_[rank]->take_back();
      ASSERT_EQ(result(rank), expected(rank)) << "rank " << rank;
      ASSERT_TRUE(input_is_intact(rank)) << "input of rank " << rank;
    }
  }
  // Those of a rank that has called it.
  bool is_right(Rank rank) const { return result(rank) == expected(rank) && input_is_intact(rank); }
  std::array<std::span<int32_t>, 2> memory(Rank rank) { return {inputs_[rank], outputs_[rank]}; }

 private:
  bool lies_in_place(Rank rank) const { return spec_.in_place && !outputs_[rank].empty(); }
  const std::vector<int32_t>& result(Rank rank) const {
    return lies_in_place(rank) ? inputs_[rank] : outputs_[rank];
  }
  bool input_is_intact(Rank rank) const {
    return lies_in_place(rank) || inputs_[rank] == originals_[rank];
  }
  static int32_t value(Rank rank, size_t i) {
    return static_cast<int32_t>((rank + 1) * 1000 + i % 997);
  }
  // The v-variants: what rank `from` has for rank `to`; some of it nothing.
  uint64_t part(Rank from, Rank to) const {
    return (from * 3 + to * 5 + spec_.elements) % 7 * spec_.part_elements;
  }
  uint64_t block() const { return (spec_.elements + ranks_ - 1) / ranks_; }

  template <typename Count>
  Partition cut(Count count) const {
    if (spec_.uniform) return Partition::Strided(ranks_, block(), block());
    std::vector<ElementRange> blocks;
    uint64_t offset = 0;
    for (Rank other = 0; other < ranks_; ++other) {
      blocks.push_back({offset, count(other)});
      offset += blocks.back().count;
    }
    return Partition::Explicit(std::move(blocks));
  }
  Partition one(uint64_t count) const { return Partition::Even(count, 1); }
  Partition whole() const { return Partition::Even(spec_.elements, ranks_); }

  Partition input_partition(Rank rank) const {
    switch (spec_.collective) {
      case Collective::kAllreduce:
      case Collective::kReduce:
      case Collective::kReduceScatter:
        return whole();
      case Collective::kAllgather:
        return one(whole().block(rank).count);
      case Collective::kGather:
        return one(spec_.uniform ? block() : part(rank, 0));
      case Collective::kScatter:
        return rank == spec_.root ? cut([&](Rank to) { return part(0, to); }) : Partition();
      case Collective::kAlltoall:
        return cut([&](Rank to) { return part(rank, to); });
      default:
        return {};
    }
  }
  Partition output_partition(Rank rank) const {
    switch (spec_.collective) {
      case Collective::kAllreduce:
      case Collective::kBroadcast:
      case Collective::kAllgather:
        return whole();
      case Collective::kReduce:
        return rank == spec_.root ? whole() : Partition();
      case Collective::kReduceScatter:
        return one(whole().block(rank).count);
      case Collective::kGather:
        return rank == spec_.root ? cut([&](Rank from) { return part(from, 0); }) : Partition();
      case Collective::kScatter:
        return one(spec_.uniform ? block() : part(0, rank));
      case Collective::kAlltoall:
        return cut([&](Rank from) { return part(from, rank); });
      default:
        return {};
    }
  }

  int32_t sum(size_t i) const {
    uint32_t total = 0;  // wraps around, as the collective does
    for (Rank rank = 0; rank < ranks_; ++rank) total += static_cast<uint32_t>(value(rank, i));
    return static_cast<int32_t>(total);
  }
  // Straight from the meaning of the collective.
  std::vector<int32_t> expected(Rank rank) const {
    std::vector<int32_t> result;
    const auto append = [&](Rank from, const ElementRange& range) {
      for (uint64_t i = 0; i < range.count; ++i) result.push_back(value(from, range.offset + i));
    };
    const ElementRange mine = whole().block(rank);
    switch (spec_.collective) {
      case Collective::kAllreduce:
        for (uint64_t i = 0; i < spec_.elements; ++i) result.push_back(sum(i));
        break;
      case Collective::kReduce:
        if (rank != spec_.root) break;
        for (uint64_t i = 0; i < spec_.elements; ++i) result.push_back(sum(i));
        break;
      case Collective::kReduceScatter:
        for (uint64_t i = 0; i < mine.count; ++i) result.push_back(sum(mine.offset + i));
        break;
      case Collective::kBroadcast:
        append(spec_.root, {0, spec_.elements});
        break;
      case Collective::kAllgather:
        for (Rank from = 0; from < ranks_; ++from) append(from, {0, whole().block(from).count});
        break;
      case Collective::kGather:
        if (rank != spec_.root) break;
        for (Rank from = 0; from < ranks_; ++from) append(from, {0, input_partition(from).total()});
        break;
      case Collective::kScatter:
        append(spec_.root, input_partition(spec_.root).block(rank));
        break;
      case Collective::kAlltoall:
        for (Rank from = 0; from < ranks_; ++from) append(from, input_partition(from).block(rank));
        break;
      default:
        break;
    }
    return result;
  }

  EngineCluster& cluster_;
  const CallSpec spec_;
  const GroupId group_;
  const uint32_t ranks_;
  std::vector<std::vector<int32_t>> inputs_;
  std::vector<std::vector<int32_t>> outputs_;
  std::vector<std::vector<int32_t>> originals_;
  std::vector<std::unique_ptr<FakeDevice>> devices_;
  std::vector<OperationPtr> operations_;
};

inline void RunCall(EngineCluster& cluster, const CallSpec& spec) {
  SCOPED_TRACE(std::string(ToString(spec.collective)) + " " + std::string(spec.algorithm) +
               ", ranks " + std::to_string(cluster.ranks()) + ", elements " +
               std::to_string(spec.elements) + ", root " + std::to_string(spec.root) +
               (spec.in_place ? ", in place" : ""));
  Call call(cluster, spec);
  call.submit_all();
  ASSERT_TRUE(call.run()) << "did not complete";
  call.check();
}

}  // namespace rocecoll
