// SPDX-License-Identifier: Apache-2.0
#include "engine/operations/scratch.h"

#include <gtest/gtest.h>

#include "transport/plain_memory.h"

namespace rocecoll {
namespace {

TEST(Scratch, StaysBelowItsLimitUnlessForced) {
  PlainMemoryDomain memory;
  ScratchPool pool(memory, 16 * 1024);
  const LocalSlice a = pool.take(5000, false);
  ASSERT_NE(a.data, nullptr);
  EXPECT_EQ(a.size, 8192u);
  const LocalSlice b = pool.take(8192, false);
  ASSERT_NE(b.data, nullptr);
  EXPECT_EQ(pool.take(1, false).data, nullptr);
  const LocalSlice c = pool.take(1, true);
  ASSERT_NE(c.data, nullptr);
  EXPECT_EQ(pool.lent_bytes(), 16u * 1024 + 4096);
  pool.give_back(c);
  EXPECT_EQ(pool.kept_bytes(), 0u) << "what was beyond the limit is freed";
  pool.give_back(a);
  pool.give_back(b);
  EXPECT_EQ(pool.lent_bytes(), 0u);
  EXPECT_EQ(pool.kept_bytes(), 16u * 1024);
}

TEST(Scratch, ReusesAndMakesRoom) {
  PlainMemoryDomain memory;
  ScratchPool pool(memory, 16 * 1024);
  const LocalSlice a = pool.take(4096, false);
  std::byte* const first = a.data;
  pool.give_back(a);
  const LocalSlice b = pool.take(100, false);
  EXPECT_EQ(b.data, first);
  pool.give_back(b);
  const LocalSlice c = pool.take(16 * 1024, false);  // only without the kept slab
  ASSERT_NE(c.data, nullptr);
  EXPECT_EQ(pool.kept_bytes(), 0u);
  pool.give_back(c);
}

class NoMemory final : public MemoryDomain {
 public:
  Result<LocalSlice> allocate(size_t) override { return Status(StatusCode::kInternal, "none"); }
  void free(LocalSlice) override {}
};

TEST(Scratch, SaysWhenThereIsNoMemory) {
  NoMemory memory;
  ScratchPool pool(memory, 1 << 20);
  EXPECT_EQ(pool.take(100, false).data, nullptr);
  EXPECT_THROW(pool.take(100, true), CheckFailure);
}

}  // namespace
}  // namespace rocecoll
