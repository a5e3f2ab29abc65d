// SPDX-License-Identifier: Apache-2.0
#include "collectives/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace rocecoll {
namespace {

// How many blocks each element is in. Fails the test if a block is outside of [0, size).
std::vector<int> Coverage(const Partition& partition, uint64_t size) {
  std::vector<int> covered(size, 0);
  for (uint32_t block = 0; block < partition.blocks(); ++block) {
    const ElementRange range = partition.block(block);
    for (uint64_t i = range.offset; i < range.offset + range.count; ++i) {
      if (i >= size) {
        ADD_FAILURE() << "block " << block << " has element " << i << " of " << size;
        return covered;
      }
      ++covered[i];
    }
  }
  return covered;
}

uint64_t SumOfBlocks(const Partition& partition) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < partition.blocks(); ++i) sum += partition.block(i).count;
  return sum;
}

uint64_t LargestBlock(const Partition& partition) {
  uint64_t largest = 0;
  for (uint32_t i = 0; i < partition.blocks(); ++i) {
    largest = std::max(largest, partition.block(i).count);
  }
  return largest;
}

TEST(Partition, EvenBlocksDifferByAtMostOneAndCoverAll) {
  for (const uint64_t total : {0, 1, 2, 6, 7, 64, 1001}) {
    for (const uint32_t blocks : {1u, 2u, 3u, 7u, 8u, 100u}) {
      const Partition partition = Partition::Even(total, blocks, 5);
      EXPECT_EQ(partition.total(), total);
      EXPECT_EQ(SumOfBlocks(partition), total);
      EXPECT_EQ(partition.max_block(), LargestBlock(partition));
      uint64_t next = 5;
      for (uint32_t i = 0; i < blocks; ++i) {
        EXPECT_EQ(partition.block(i).offset, next);
        EXPECT_EQ(partition.block(i).count, total / blocks + (i < total % blocks ? 1 : 0));
        next += partition.block(i).count;
      }
    }
  }
}

TEST(Partition, EvenBlocksOfHugeBuffersDoNotOverflow) {
  const uint64_t total = (uint64_t{1} << 63) + 3;
  const Partition partition = Partition::Even(total, 65536);
  EXPECT_EQ(SumOfBlocks(partition), total);
  const ElementRange last = partition.block(65535);
  EXPECT_EQ(last.offset + last.count, total);
  EXPECT_EQ(SumOfBlocks(partition.lane(999, 1000)), partition.lane(999, 1000).total());
}

TEST(Partition, StridedBlocksKeepTheirDistance) {
  const Partition partition = Partition::Strided(3, 4, 10, 2);
  EXPECT_EQ(partition.blocks(), 3u);
  EXPECT_EQ(partition.total(), 12u);
  EXPECT_EQ(partition.max_block(), 4u);
  EXPECT_EQ(partition.block(2).offset, 22u);
  EXPECT_EQ(partition.block(2).count, 4u);
  EXPECT_THROW(partition.block(3), CheckFailure);
}

TEST(Partition, BlocksThatWouldOverlapAreRefused) {
  EXPECT_THROW(Partition::Strided(2, 4, 3), CheckFailure);
  EXPECT_THROW(Partition::Even(4, 0), CheckFailure);
  EXPECT_THROW(Partition::Explicit({}), CheckFailure);
  EXPECT_EQ(Partition::Strided(1, 4, 0).block(0).count, 4u);  // a single block has no stride
}

TEST(Partition, ExplicitBlocksMayBeEmptyAndInAnyOrder) {
  const Partition partition = Partition::Explicit({{10, 3}, {0, 0}, {2, 5}});
  EXPECT_EQ(partition.blocks(), 3u);
  EXPECT_EQ(partition.total(), 8u);
  EXPECT_EQ(partition.max_block(), 5u);
  EXPECT_EQ(partition.block(0).offset, 10u);
  EXPECT_EQ(partition.block(1).count, 0u);
}

TEST(Partition, PackingKeepsSizesAndClosesGaps) {
  for (const Partition& partition : {Partition::Strided(3, 4, 10, 2), Partition::Even(11, 3, 5),
                                     Partition::Explicit({{10, 3}, {0, 0}, {2, 5}})}) {
    const Partition packed = partition.packed();
    uint64_t next = 0;
    for (uint32_t i = 0; i < partition.blocks(); ++i) {
      EXPECT_EQ(packed.block(i).offset, next);
      EXPECT_EQ(packed.block(i).count, partition.block(i).count);
      next += packed.block(i).count;
    }
  }
  EXPECT_TRUE(Partition::Strided(3, 4, 4).contiguous());
  EXPECT_FALSE(Partition::Strided(3, 4, 10).contiguous());
}

TEST(Partition, ARunHasWhatItsBlocksHave) {
  for (const Partition& partition :
       {Partition::Even(10, 4, 5), Partition::Even(2, 5), Partition::Even(0, 3),
        Partition::Strided(4, 3, 3, 7), Partition::Strided(1, 3, 9, 7)}) {
    for (uint32_t first = 0; first < partition.blocks(); ++first) {
      for (uint32_t count = 1; first + count <= partition.blocks(); ++count) {
        const ElementRange run = partition.run(first, count);
        uint64_t next = partition.block(first).offset;
        EXPECT_EQ(run.offset, next);
        for (uint32_t i = first; i < first + count; ++i) next += partition.block(i).count;
        EXPECT_EQ(run.offset + run.count, next);
      }
    }
    EXPECT_THROW((void)partition.run(0, 0), CheckFailure);
    EXPECT_THROW((void)partition.run(1, partition.blocks()), CheckFailure);
  }
  EXPECT_THROW((void)Partition::Strided(2, 3, 9).run(0, 2), CheckFailure);
}

TEST(Partition, DefaultIsEmpty) {
  const Partition partition;
  EXPECT_EQ(partition.blocks(), 0u);
  EXPECT_EQ(partition.total(), 0u);
  EXPECT_EQ(partition.max_block(), 0u);
  EXPECT_EQ(partition.lane(1, 2).blocks(), 0u);
}

// Together the lanes contain every element of the blocks once, and nothing else.
TEST(Partition, LanesCoverExactlyTheBlocks) {
  const std::vector<Partition> partitions = {
      Partition::Even(0, 3),
      Partition::Even(1, 3),
      Partition::Even(2, 5, 7),
      Partition::Even(101, 4),
      Partition::Strided(3, 0, 2),
      Partition::Strided(3, 1, 1, 4),
      Partition::Strided(4, 5, 9),
      Partition::Strided(2, 17, 17),
      Partition::Explicit({{30, 9}, {0, 0}, {5, 1}, {10, 2}}),
  };
  constexpr uint64_t kSize = 128;
  for (const Partition& partition : partitions) {
    const std::vector<int> whole = Coverage(partition, kSize);
    EXPECT_LE(*std::max_element(whole.begin(), whole.end()), 1);
    for (const uint32_t lanes : {1u, 2u, 3u, 7u, 40u}) {
      std::vector<int> covered(kSize, 0);
      for (uint32_t lane = 0; lane < lanes; ++lane) {
        const Partition part = partition.lane(lane, lanes);
        EXPECT_EQ(part.blocks(), partition.blocks());
        EXPECT_EQ(part.total(), SumOfBlocks(part));
        EXPECT_EQ(part.max_block(), LargestBlock(part));
        const std::vector<int> more = Coverage(part, kSize);
        for (uint64_t i = 0; i < kSize; ++i) covered[i] += more[i];
      }
      EXPECT_EQ(covered, whole);
      EXPECT_THROW(partition.lane(lanes, lanes), CheckFailure);
    }
  }
}

TEST(Partition, ALaneOfAnEvenCutIsOnePiece) {
  const Partition lane = Partition::Even(100, 7, 3).lane(1, 3);
  uint64_t next = lane.block(0).offset;
  for (uint32_t i = 0; i < lane.blocks(); ++i) {
    EXPECT_EQ(lane.block(i).offset, next);
    next += lane.block(i).count;
  }
  EXPECT_EQ(lane.block(0).offset, 3u + 34u);
  EXPECT_EQ(next, 3u + 67u);
}

// Input and output of an allgather or reduce-scatter are cut separately, so their lanes must agree.
TEST(Partition, LanesOfBlocksOfOneSizeAreCutAlike) {
  const Partition one = Partition::Strided(1, 11, 11);
  const Partition whole = Partition::Even(11, 1);
  const Partition many = Partition::Strided(5, 11, 20, 4);
  const Partition listed = Partition::Explicit({{0, 11}, {40, 11}});
  for (uint32_t lane = 0; lane < 4; ++lane) {
    const ElementRange part = one.lane(lane, 4).block(0);
    EXPECT_EQ(whole.lane(lane, 4).block(0).offset, part.offset);
    EXPECT_EQ(whole.lane(lane, 4).block(0).count, part.count);
    EXPECT_EQ(many.lane(lane, 4).block(3).count, part.count);
    EXPECT_EQ(many.lane(lane, 4).block(3).offset, 4 + 3 * 20 + part.offset);
    EXPECT_EQ(listed.lane(lane, 4).block(1).count, part.count);
    EXPECT_EQ(listed.lane(lane, 4).block(1).offset, 40 + part.offset);
  }
}

}  // namespace
}  // namespace rocecoll
