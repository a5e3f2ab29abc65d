// SPDX-License-Identifier: Apache-2.0
// The queue belongs to the process and stays stopped, so one test tells its whole story.
#include "base/log.h"

#include <gtest/gtest.h>

#include <thread>

namespace rocecoll {
namespace {

constexpr Duration kLong = std::chrono::seconds(60);

TEST(Log, KeepsOrderDropsWhatIsTooMuchAndWakesWhoWaits) {
  EXPECT_FALSE(TakeLogEntry(Duration{0}).has_value());

  std::thread writer([] { Log(Severity::kWarning, "first"); });
  const auto first = TakeLogEntry(Duration::max());
  writer.join();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->severity, Severity::kWarning);
  EXPECT_EQ(first->text, "first");

  for (size_t i = 0; i < kMaxLogEntries + 10; ++i) Log(Severity::kInfo, std::to_string(i));
  for (size_t i = 0; i < kMaxLogEntries; ++i) {
    const auto entry = TakeLogEntry(kLong);
    ASSERT_TRUE(entry.has_value());
    ASSERT_EQ(entry->text, std::to_string(i));
  }
  EXPECT_FALSE(TakeLogEntry(Duration{0}).has_value());

  std::thread stopper([] { StopLogWaits(); });
  EXPECT_FALSE(TakeLogEntry(Duration::max()).has_value());
  stopper.join();
  Log(Severity::kInfo, "last");
  const auto last = TakeLogEntry(Duration::max());
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->text, "last");
  EXPECT_FALSE(TakeLogEntry(Duration::max()).has_value());
}

}  // namespace
}  // namespace rocecoll
