// SPDX-License-Identifier: Apache-2.0
// Devices that register hardly any memory, for many links that all write at once.
#include "conformance/exchange.h"
#include "rc/rc_world.h"

namespace rocecoll {
namespace {

constexpr uint64_t kGroups = 20;
constexpr size_t kKib = size_t{1} << 10;

// Every one of 40 links brings a write and a frame, over RoCE or, for want of memory, over UDP.
void WriteOverAll(uint64_t max_registered_bytes) {
  RcWorldOptions options;
  options.limits.max_registered_bytes = max_registered_bytes;
  RcWorld world(3, options);
  std::vector<std::pair<Link*, Link*>> links;
  std::vector<Transfer> transfers;
  for (uint64_t group = 1; group <= kGroups; ++group) {
    links.push_back(world.connect(0, 1, group));
    links.push_back(world.connect(2, 1, group));
  }
  for (uint32_t i = 0; i < links.size(); ++i) {
    ASSERT_TRUE(transfers.emplace_back(30'000 + i, i).start(links[i].first, links[i].second, i));
    ASSERT_TRUE(links[i].second->send_frame(Text(std::to_string(i))));
  }
  EXPECT_TRUE(world.run([&] {
    return std::ranges::all_of(links, [&](const auto& ends) {
      return world.transferred(ends.first, ends.second, 1) &&
             world.record(ends.first).frames.size() == 1;
    });
  }));
  for (uint32_t i = 0; i < links.size(); ++i) EXPECT_EQ(transfers[i].source, transfers[i].target);
}

// Receive buffers of many links once left nothing for frames on their way out.
TEST(RcShortMemory, ManyLinksWriteWithWhateverMemoryThereIs) {
  for (uint64_t bytes = 16 * kKib; bytes < 16'384 * kKib; bytes += bytes / 8) {
    SCOPED_TRACE(bytes);
    ASSERT_NO_FATAL_FAILURE(WriteOverAll(bytes));
  }
}

}  // namespace
}  // namespace rocecoll
