// SPDX-License-Identifier: Apache-2.0
// AVG and PREMUL_SUM through whole operations: where they scale, and that the caller's input stays.
#include <algorithm>
#include <cstring>

#include "collectives/selector.h"
#include "engine/cluster.h"
#include "engine/fake_device.h"

namespace rocecoll {
namespace {

struct Floats {
  std::vector<double> input;
  std::vector<double> output;
};

double ValueOf(Rank rank, size_t i) { return static_cast<double>((rank + 1) * (i % 31 + 1)); }
double SumOf(uint32_t ranks, size_t i) {
  double sum = 0;
  for (Rank rank = 0; rank < ranks; ++rank) sum += ValueOf(rank, i);
  return sum;
}

struct Variant {
  ReduceOp op = ReduceOp::kAvg;
  bool in_place = false;
  bool staged = false;
};

// 5000 elements in lanes of 4 KiB; `scale` is what the sum is multiplied with in the end.
void RunReduction(uint32_t ranks, Collective collective, std::string_view algorithm,
                  const Variant& variant) {
  SCOPED_TRACE(std::string(ToString(collective)) + " " + std::string(algorithm) + " at " +
               std::to_string(ranks));
  ClusterOptions options;
  options.ranks = ranks;
  options.engine.lane_bytes = 4096;
  Cluster cluster(options);
  constexpr size_t kElements = 5000;
  const Partition whole = Partition::Even(kElements, ranks);
  const double scale = variant.op == ReduceOp::kAvg ? 1.0 / ranks : 0.25;
  std::vector<Floats> all(ranks);
  std::vector<OperationPtr> operations;
  const auto asked_twice = [asked = false](DeviceCall, uint32_t) mutable -> Result<bool> {
    asked = !asked;
    return !asked;
  };
  std::vector<FakeDevice> devices(ranks, FakeDevice(asked_twice));
  for (Rank rank = 0; rank < ranks; ++rank) {
    Floats& mine = all[rank];
    for (size_t i = 0; i < kElements; ++i) mine.input.push_back(ValueOf(rank, i));
    mine.output.resize(kElements);
    OperationSpec spec;
    spec.collective = collective;
    spec.type = DataType::kFloat64;
    spec.reduce_op = variant.op;
    spec.premul_factor = 0.25;
    spec.root = ranks - 1;
    spec.algorithm = algorithm;
    spec.input = {mine.input.data(), whole};
    if (collective == Collective::kReduceScatter) {
      spec.output = {mine.output.data(), Partition::Even(whole.block(rank).count, 1)};
    } else if (collective == Collective::kAllreduce || rank == spec.root) {
      spec.output = {variant.in_place ? mine.input.data() : mine.output.data(), whole};
    }
    if (variant.staged) {
      devices[rank].mirror(mine.input);
      devices[rank].mirror(mine.output);
      spec.staged = &devices[rank];
    }
    operations.push_back(cluster.submit(rank, std::move(spec)));
  }
  ASSERT_TRUE(cluster.run_until_done(operations));
  for (const auto& op : operations) ASSERT_TRUE(op->status().ok()) << op->status().message();
  for (Rank rank = 0; rank < ranks; ++rank) {
    devices[rank].take_back();
    const bool has_result = collective != Collective::kReduce || rank == ranks - 1;
    const auto& result = variant.in_place ? all[rank].input : all[rank].output;
    ElementRange range{0, kElements};
    if (collective == Collective::kReduceScatter) range = whole.block(rank);
    for (size_t i = 0; i < range.count && has_result; ++i) {
      ASSERT_NEAR(result[i], SumOf(ranks, range.offset + i) * scale, 1e-9) << rank << ", " << i;
    }
    for (size_t i = 0; i < kElements && !(variant.in_place && has_result); ++i) {
      ASSERT_EQ(all[rank].input[i], ValueOf(rank, i)) << "input of rank " << rank << ", " << i;
    }
  }
}

TEST(Reduction, ScalesOnceAndLeavesTheInputAlone) {
  for (const uint32_t ranks : {1u, 2u, 3u, 4u, 7u}) {
    for (const Collective collective :
         {Collective::kAllreduce, Collective::kReduce, Collective::kReduceScatter}) {
      for (const std::string_view name : AlgorithmNames(collective)) {
        if (!MakeProgram({.collective = collective, .ranks = ranks}, name).ok()) continue;
        for (const ReduceOp op : {ReduceOp::kAvg, ReduceOp::kPremulSum}) {
          for (const bool staged : {false, true}) {
            RunReduction(ranks, collective, name, {op, false, staged});
            if (collective == Collective::kReduceScatter) continue;
            RunReduction(ranks, collective, name, {op, true, staged});
          }
        }
      }
    }
  }
}

// The type's largest power of two: the sum of two of them is no finite number.
struct Large {
  DataType type;
  uint64_t bits;
};
constexpr Large kLargeNumbers[] = {
    {DataType::kFloat8E4m3fn, 0x78},
    {DataType::kFloat8E5m2, 0x78},
    {DataType::kFloat16, 0x7800},
    {DataType::kBfloat16, 0x7f00},
    {DataType::kFloat32, 0x7f000000},
    {DataType::kFloat64, 0x7fe0000000000000},
    {DataType::kComplex64, 0x7f0000007f000000},
};

TEST(Reduction, AveragesWhatHasNoSum) {
  constexpr size_t kElements = 600;
  for (const uint32_t ranks : {2u, 4u}) {
    for (const Collective collective :
         {Collective::kAllreduce, Collective::kReduce, Collective::kReduceScatter}) {
      for (const std::string_view name : AlgorithmNames(collective)) {
        if (!MakeProgram({.collective = collective, .ranks = ranks}, name).ok()) continue;
        for (const Large& large : kLargeNumbers) {
          SCOPED_TRACE(std::string(name) + " of " + std::string(ToString(large.type)) + " at " +
                       std::to_string(ranks));
          const size_t bytes = SizeOf(large.type);
          std::vector<std::byte> input(kElements * bytes);
          for (size_t i = 0; i < kElements; ++i) {
            std::memcpy(&input[i * bytes], &large.bits, bytes);
          }
          ClusterOptions options;
          options.ranks = ranks;
          options.engine.lane_bytes = 512;
          Cluster cluster(options);
          const Partition whole = Partition::Even(kElements, ranks);
          std::vector<std::vector<std::byte>> inputs(ranks, input);
          std::vector<std::vector<std::byte>> outputs(ranks,
                                                      std::vector(input.size(), std::byte{}));
          std::vector<OperationPtr> operations;
          for (Rank rank = 0; rank < ranks; ++rank) {
            OperationSpec spec;
            spec.collective = collective;
            spec.type = large.type;
            spec.reduce_op = ReduceOp::kAvg;
            spec.algorithm = name;
            spec.input = {inputs[rank].data(), whole};
            if (collective == Collective::kReduceScatter) {
              outputs[rank].resize(whole.block(rank).count * bytes);
              spec.output = {outputs[rank].data(), Partition::Even(whole.block(rank).count, 1)};
            } else if (collective == Collective::kAllreduce || rank == spec.root) {
              spec.output = {outputs[rank].data(), whole};
            }
            operations.push_back(cluster.submit(rank, std::move(spec)));
          }
          ASSERT_TRUE(cluster.run_until_done(operations));
          for (Rank rank = 0; rank < ranks; ++rank) {
            ASSERT_EQ(inputs[rank], input);
            if (collective == Collective::kReduce && rank != 0) continue;
            ASSERT_TRUE(std::equal(outputs[rank].begin(), outputs[rank].end(), input.begin()));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace rocecoll
