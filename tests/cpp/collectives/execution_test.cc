// SPDX-License-Identifier: Apache-2.0
// Programs run on numbers, and the result is compared with the one computed directly: with any
// sizes, v-variants and lanes, in place and out of place.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "base/random.h"
#include "collectives/program_list.h"
#include "collectives/reference_executor.h"

namespace rocecoll {
namespace {

constexpr int64_t kUntouched = -1;
constexpr uint32_t kMaxLanes = 3;

using Vector = std::vector<int64_t>;

// Number `i` of the values that `rank` puts into block `block`.
int64_t Value(Rank rank, uint32_t block, uint64_t i) {
  return static_cast<int64_t>((rank + 1) * 1000003 + block * 10007 + i * 31);
}

// How many elements the block from rank `from` to rank `to` has. If the blocks of a collective
// depend on only one of them, the other is 0.
using Sizes = std::function<uint64_t(Rank from, Rank to)>;

// Blocks in sequence, with `gap` elements between them that belong to nobody.
Partition Spread(const std::vector<uint64_t>& counts, uint64_t gap) {
  std::vector<ElementRange> ranges;
  uint64_t offset = gap;
  for (const uint64_t count : counts) {
    ranges.push_back({offset, count});
    offset += count + gap;
  }
  return Partition::Explicit(std::move(ranges));
}

uint64_t EndOf(const Partition& partition) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < partition.blocks(); ++i) {
    end = std::max(end, partition.block(i).offset + partition.block(i).count);
  }
  return end;
}

class Execution : public testing::TestWithParam<NamedAlgorithm> {
 protected:
  // `even_total`: the blocks of an even cut of that many elements. Otherwise their sizes are
  // sizes(from, to).
  struct Case {
    uint32_t ranks = 0;
    Rank root = 0;
    std::optional<uint64_t> even_total = std::nullopt;
    Sizes sizes = nullptr;
    bool in_place = false;
    uint32_t lanes = 1;
  };

  Collective collective() const { return GetParam().collective; }

  // The number of elements of block `index` of the buffer.
  uint64_t count(const Case& c, Buffer buffer, Rank rank, uint32_t index) const {
    const bool input = buffer == Buffer::kInput;
    switch (collective()) {
      case Collective::kReduceScatter:
        return c.sizes(0, input ? index : rank);
      case Collective::kAllgather:
      case Collective::kGather:
        return c.sizes(input ? rank : index, 0);
      case Collective::kScatter:
        return c.sizes(0, input ? index : rank);
      case Collective::kAlltoall:
        return input ? c.sizes(rank, index) : c.sizes(index, rank);
      default:
        return c.sizes(0, index);
    }
  }

  Partition partition(const Case& c, Buffer buffer, Rank rank) const {
    const uint32_t blocks = BlocksIn(buffer, collective(), c.ranks, rank == c.root);
    if (blocks == 0) return {};
    if (c.even_total) return Partition::Even(*c.even_total, blocks, 2);
    std::vector<uint64_t> counts;
    for (uint32_t i = 0; i < blocks; ++i) counts.push_back(count(c, buffer, rank, i));
    return Spread(counts, 2);
  }

  int64_t expected(const Case& c, Rank rank, uint32_t block, uint64_t i) const {
    if (Reduces(collective())) {
      const uint32_t of = collective() == Collective::kReduceScatter ? rank : block;
      int64_t sum = 0;
      for (Rank other = 0; other < c.ranks; ++other) sum += Value(other, of, i);
      return sum;
    }
    if (collective() == Collective::kBroadcast) return Value(c.root, block, i);
    if (collective() == Collective::kScatter) return Value(c.root, rank, i);
    if (collective() == Collective::kAlltoall) return Value(block, rank, i);
    return Value(block, 0, i);
  }

  void run(const Program& program, const Case& c) const {
    std::vector<Vector> inputs(c.ranks), outputs(c.ranks);
    std::vector<Partition> in(c.ranks), out(c.ranks);
    ReferenceExecutor<int64_t> executor(program);
    for (Rank rank = 0; rank < c.ranks; ++rank) {
      in[rank] = partition(c, Buffer::kInput, rank);
      out[rank] = partition(c, Buffer::kOutput, rank);
      const bool shared = c.in_place && (collective() == Collective::kAllreduce ||
                                         (collective() == Collective::kReduce && rank == c.root));
      inputs[rank].assign(EndOf(in[rank]) + 2, kUntouched);
      outputs[rank].assign(EndOf(out[rank]) + 2, kUntouched);
      const bool from_output = collective() == Collective::kBroadcast;
      const Partition& source = from_output ? out[rank] : in[rank];
      Vector& values = from_output || shared ? outputs[rank] : inputs[rank];
      for (uint32_t block = 0; block < source.blocks(); ++block) {
        if (from_output && rank != c.root) break;
        const ElementRange range = source.block(block);
        for (uint64_t i = 0; i < range.count; ++i) {
          values[range.offset + i] = Value(rank, block, i);
        }
      }
      executor.bind(rank, Buffer::kInput, shared ? outputs[rank].data() : inputs[rank].data(),
                    in[rank]);
      executor.bind(rank, Buffer::kOutput, outputs[rank].data(), out[rank]);
    }
    const std::vector<Vector> inputs_before = inputs;
    executor.run(c.lanes, collective() == Collective::kReduceScatter);
    EXPECT_EQ(inputs, inputs_before);
    for (Rank rank = 0; rank < c.ranks; ++rank) {
      if (collective() == Collective::kReduce && rank != c.root) continue;
      Vector wanted(outputs[rank].size(), kUntouched);
      for (uint32_t block = 0; block < out[rank].blocks(); ++block) {
        const ElementRange range = out[rank].block(block);
        for (uint64_t i = 0; i < range.count; ++i) {
          wanted[range.offset + i] = expected(c, rank, block, i);
        }
      }
      EXPECT_EQ(outputs[rank], wanted)
          << c.ranks << " ranks, root " << c.root << ", rank " << rank << ", " << c.lanes
          << " lanes" << (c.in_place ? ", in place" : "");
    }
  }

  // Runs the case at every root.
  void run_at(uint32_t ranks, Case c) const {
    c.ranks = ranks;
    for (const Rank root : RootsOf(collective(), ranks)) {
      c.root = root;
      const auto program = Make(collective(), GetParam().name, ranks, root);
      if (!program) continue;
      for (c.lanes = 1; c.lanes <= kMaxLanes; ++c.lanes) {
        for (const bool in_place : {false, true}) {
          c.in_place = in_place;
          ASSERT_NO_FATAL_FAILURE(run(*program, c));
        }
      }
    }
  }

  void run_all(const Case& c) const {
    for (uint32_t ranks = 1; ranks <= 9; ++ranks) ASSERT_NO_FATAL_FAILURE(run_at(ranks, c));
  }
};

// A power of two, and one more than a power of two, both of more ranks than in the other tests.
constexpr uint32_t kManyRanks[] = {33, 64};

using Wanted = bool (*)(const NamedAlgorithm&);

std::vector<NamedAlgorithm> Select(Wanted wanted) {
  std::vector<NamedAlgorithm> algorithms = Algorithms(false);
  std::erase_if(algorithms, [wanted](const NamedAlgorithm& algorithm) {
    return IsPointToPoint(algorithm.collective) || algorithm.collective == Collective::kBarrier ||
           !wanted(algorithm);
  });
  return algorithms;
}

TEST_P(Execution, EqualBlocksOfAnySize) {
  for (const uint64_t size : {0, 1, 2, 3, 17}) {
    run_all({.sizes = [size](Rank, Rank) { return size; }});
  }
}

TEST_P(Execution, EqualBlocksOfManyRanks) {
  for (const uint32_t ranks : kManyRanks) {
    for (const uint64_t size : {0u, 1u, ranks - 1}) {
      run_at(ranks, {.sizes = [size](Rank, Rank) { return size; }});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Execution,
                         testing::ValuesIn(Select([](const NamedAlgorithm&) { return true; })),
                         TestName);

// Collectives of one tensor, which the engine cuts evenly.
class EvenExecution : public Execution {};

// Totals of 0, 1 and fewer elements than ranks; odd numbers; many.
TEST_P(EvenExecution, AnyTotal) {
  for (const uint64_t total : {0, 1, 2, 5, 13, 101}) run_all({.even_total = total});
}

TEST_P(EvenExecution, FewerElementsThanManyRanks) {
  for (const uint32_t ranks : kManyRanks) {
    for (const uint64_t total : {0u, 1u, ranks - 1}) run_at(ranks, {.even_total = total});
  }
}

INSTANTIATE_TEST_SUITE_P(All, EvenExecution,
                         testing::ValuesIn(Select([](const NamedAlgorithm& algorithm) {
                           return algorithm.collective == Collective::kAllreduce ||
                                  algorithm.collective == Collective::kReduce ||
                                  algorithm.collective == Collective::kBroadcast;
                         })),
                         TestName);

// Algorithms that MakeProgram offers for blocks of different sizes.
class UnequalExecution : public Execution {};

TEST_P(UnequalExecution, BlocksOfDifferentSizes) {
  run_all({.sizes = [](Rank from, Rank to) { return (from * 3 + to * 5) % 7; }});
  run_all({.sizes = [](Rank from, Rank to) { return from + to == 1 ? 9 : 0; }});
}

INSTANTIATE_TEST_SUITE_P(
    All, UnequalExecution, testing::ValuesIn(Select([](const NamedAlgorithm& algorithm) {
      return MakeProgram({.collective = algorithm.collective, .ranks = 4, .uniform = false},
                         algorithm.name)
          .ok();
    })),
    TestName);

// The numbers differ very much in magnitude, so their sum depends on the order of addition.
TEST(Bits, AllreduceIsTheSameOnAllRanks) {
  constexpr uint64_t kTotal = 41;
  for (const std::string_view name : AlgorithmNames(Collective::kAllreduce)) {
    for (uint32_t ranks = 2; ranks <= 16; ++ranks) {
      const auto program = Make(Collective::kAllreduce, name, ranks);
      if (!program) continue;
      Random random(ranks);
      std::vector<std::vector<float>> data(ranks);
      ReferenceExecutor<float> executor(*program);
      for (Rank rank = 0; rank < ranks; ++rank) {
        for (uint64_t i = 0; i < kTotal; ++i) {
          const float scale = random.chance(0.5) ? 1e6f : 1e-3f;
          data[rank].push_back(scale * static_cast<float>(random.uniform() - 0.5));
        }
        for (const Buffer buffer : {Buffer::kInput, Buffer::kOutput}) {
          executor.bind(rank, buffer, data[rank].data(), Partition::Even(kTotal, ranks));
        }
      }
      executor.run(2, false);
      for (Rank rank = 1; rank < ranks; ++rank) {
        EXPECT_EQ(std::memcmp(data[0].data(), data[rank].data(), kTotal * sizeof(float)), 0)
            << name << ", " << ranks << " ranks, rank " << rank;
      }
    }
  }
}

}  // namespace
}  // namespace rocecoll
