// SPDX-License-Identifier: Apache-2.0
// The queue belongs to the process and stays stopped, so a single test covers its whole life.
#include "base/log.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <semaphore>
#include <thread>

namespace rocecoll {
namespace {

constexpr Duration kPatience = std::chrono::seconds(60);

// Runs in a forked child: hands entries from one of its threads to another, then stops. Returns the
// exit status; alarm() ends the child if a thread hangs.
int UseInChild() {
  alarm(20);
  std::binary_semaphore taken(0);
  std::thread reader([&] {
    while (TakeLogEntry(kPatience).has_value()) taken.release();
  });
  for (int i = 0; i < 20; ++i) {
    Log(Severity::kInfo, "the child's");
    taken.acquire();
  }
  StopLogWaits();
  reader.join();
  return 0;
}

// Runs before the queue is stopped below. A thread of the parent that waits at the moment of the
// fork is counted for ever in the child's copy of the condition variable. Whether this happens
// depends on timing, so there are many attempts.
TEST(Log, AForkedChildIsNotHeldByThreadsOfItsParent) {
  std::binary_semaphore began(0);
  std::thread waiter([&] {
    began.release();
    EXPECT_EQ(TakeLogEntry(kPatience)->text, "the parent's");
  });
  began.acquire();
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(UseInChild());
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    if (status != 0) break;
  }
  Log(Severity::kInfo, "the parent's");
  waiter.join();
}

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
    const auto entry = TakeLogEntry(kPatience);
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
