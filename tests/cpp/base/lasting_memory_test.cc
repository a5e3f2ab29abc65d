// SPDX-License-Identifier: Apache-2.0
#include "base/lasting_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "base/in_child.h"

namespace rocecoll {
namespace {

using Memory = LastingMemory::Owner;

TEST(LastingMemory, BlocksAreWholePagesAndLargeOnesHugePages) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, size_t{5000}, size_t{3} << 20}) {
    const Memory memory = LastingMemory::Allocate(bytes);
    ASSERT_NE(memory, nullptr);
    const auto at = reinterpret_cast<uintptr_t>(memory.get());
    EXPECT_EQ(at % (bytes >= size_t{2} << 20 ? size_t{2} << 20 : size_t{4096}), 0u) << bytes;
    std::memset(memory.get(), 1, bytes);
  }
  EXPECT_EQ(LastingMemory::Allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(LastingMemory::Allocate(SIZE_MAX / 2), nullptr);
}

TEST(LastingMemory, WhatLiesInABlockFindsIt) {
  const Memory first = LastingMemory::Allocate(10'000);
  const Memory second = LastingMemory::Allocate(100);
  const auto block = LastingMemory::Find({first.get(), 10'000});
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->bytes.data(), first.get());
  EXPECT_GE(block->bytes.size(), 10'000u);
  EXPECT_EQ(LastingMemory::Find({first.get() + 9'999, 1}), block);
  EXPECT_EQ(LastingMemory::Find({first.get() + 5'000, 0}), block);
  EXPECT_NE(LastingMemory::Find({second.get(), 100}), block);
}

TEST(LastingMemory, WhatDoesNotLieInOneWhollyFindsNone) {
  const Memory memory = LastingMemory::Allocate(4096);
  std::vector<std::byte> other(100);
  EXPECT_EQ(LastingMemory::Find(other), nullptr);
  EXPECT_EQ(LastingMemory::Find({memory.get() + 4000, 97}), nullptr);
  EXPECT_EQ(LastingMemory::Find({memory.get() + 4096, 1}), nullptr);
  EXPECT_EQ(LastingMemory::Find({memory.get() - 1, 2}), nullptr);
}

TEST(LastingMemory, WhatIsFreedIsKeptByWhoHoldsIt) {
  Memory memory = LastingMemory::Allocate(4096);
  std::memset(memory.get(), 7, 4096);
  const auto block = LastingMemory::Find({memory.get(), 1});
  const uint64_t frees = LastingMemory::Frees();
  EXPECT_FALSE(block->freed);
  std::byte* data = memory.get();
  memory.reset();
  EXPECT_TRUE(block->freed);
  EXPECT_EQ(LastingMemory::Frees(), frees + 1);
  EXPECT_EQ(LastingMemory::Find({data, 1}), nullptr);
  EXPECT_EQ(data[4095], std::byte{7});
  EXPECT_NE(LastingMemory::Allocate(4096).get(), data) << "or two would have it";
}

TEST(LastingMemory, AForkedChildFreesItsCopy) {
  Memory memory = LastingMemory::Allocate(4096);
  EXPECT_TRUE(InChild([&] {
    EXPECT_EQ(LastingMemory::Find({memory.get(), 1}), nullptr) << "the device is not the child's";
    memory.reset();
    const Memory own = LastingMemory::Allocate(4096);
    return LastingMemory::Find({own.get(), 1}) != nullptr;
  }));
  EXPECT_NE(LastingMemory::Find({memory.get(), 1}), nullptr);
}

TEST(LastingMemory, ThreadsAllocateAndFreeAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 1000; ++i) {
        const Memory memory = LastingMemory::Allocate(4096);
        if (LastingMemory::Find({memory.get(), 4096}) == nullptr) ADD_FAILURE();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace rocecoll
