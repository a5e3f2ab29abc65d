// SPDX-License-Identifier: Apache-2.0
// What people are told of a fast path: in its own words, of which SwitchingTransport knows none.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "base/log.h"
#include "switching/memory_world.h"

namespace rocecoll {
namespace {

struct Pair : MemoryWorld {
  explicit Pair(const SwitchingOptions& options = MemoryWorld::Options())
      : MemoryWorld(2, 1, {}, options) {
    while (TakeLogEntry(Duration{0})) {
    }
    std::tie(a, b) = connect(0, 1);
  }
  bool starts() {
    return run([&] { return carries(Between(0, 1)) && carries(Between(1, 0)); });
  }
  // A frame from one to the other, by whichever path.
  bool passes() {
    const size_t before = record(b).frames.size();
    EXPECT_TRUE(a->send_frame(Text("frame")));
    return run([&] { return record(b).frames.size() > before; });
  }
  Link* a = nullptr;
  Link* b = nullptr;
};

// Whether a pair was told of in these words, and none in those of RoCE over UDP.
bool Told(const std::string& end) {
  bool told = false;
  while (const auto entry = TakeLogEntry(Duration{0})) {
    for (const char* foreign : {"UDP", "queue pair", "registered", "RoCE"}) {
      EXPECT_EQ(entry->text.find(foreign), std::string::npos) << entry->text;
    }
    told = told || entry->text.ends_with("): " + end);
  }
  return told;
}

TEST(SwitchingWords, OfALinkThatTheControlPathCarriesFromTheBeginning) {
  SwitchingOptions options = MemoryWorld::Options();
  options.max_recoveries = 0;
  Pair pair(options);
  pair.device(0).broken = true;
  EXPECT_TRUE(pair.passes());
  EXPECT_TRUE(Told("the network: switched off"));
}

TEST(SwitchingWords, OfAnEndThatFailedWithoutAReason) {
  SwitchingOptions options = MemoryWorld::Options();
  options.max_recoveries = 0;
  Pair pair(options);
  ASSERT_TRUE(pair.starts());
  pair.fabric().ends.begin()->second->break_end("");
  EXPECT_TRUE(pair.run([&] { return !pair.carries(Between(0, 1)); }));
  EXPECT_TRUE(pair.passes());
  EXPECT_TRUE(Told("goes on over the network: the peer's end in memory failed"));
}

// With an operation under way, so that the fast path breaks and the control path has to carry.
TEST(SwitchingWords, OfAPeerThatLeavesAreNoWarning) {
  Pair pair;
  ASSERT_TRUE(pair.starts());
  Bytes target(100'000);
  pair.b->expose({target.data(), target.size(), kUnregistered}, 1);
  pair.b->close({});
  EXPECT_TRUE(pair.run([&] { return !pair.carries(Between(0, 1)); }));
  EXPECT_TRUE(pair.run([&] { return pair.is_down(pair.a); }));
  bool told = false;
  while (const auto entry = TakeLogEntry(Duration{0})) {
    EXPECT_EQ(entry->severity, Severity::kInfo) << entry->text;
    told = told || entry->text.ends_with("the peer says: this rank leaves");
  }
  EXPECT_TRUE(told);
}

TEST(SwitchingWords, OfMemoryThatCannotBeExposed) {
  Pair pair;
  ASSERT_TRUE(pair.starts());
  pair.device(1).full = true;
  Bytes target(100'000);
  pair.b->expose({target.data(), target.size(), kUnregistered}, 1);
  EXPECT_TRUE(
      Told("a slice cannot be mapped, so that large messages go over the network: no room"));
}

TEST(SwitchingWords, OfAPairWithoutFailover) {
  SwitchingOptions options = MemoryWorld::Options();
  options.failover = false;
  Pair pair(options);
  pair.device(0).broken = true;
  EXPECT_TRUE(pair.run([&] { return pair.is_down(pair.a); }));
  const std::string& why = pair.record(pair.a).down.front().message();
  EXPECT_TRUE(why.starts_with("memory does not carry ranks 0 and 1 (")) << why;
  EXPECT_TRUE(why.ends_with("; the network would, but failover is switched off")) << why;
}

}  // namespace
}  // namespace rocecoll
