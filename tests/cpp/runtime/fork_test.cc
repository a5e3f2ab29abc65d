// SPDX-License-Identifier: Apache-2.0
// What a child of fork() has of its parent's runtime: nothing that is open.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include "runtime/runtime.h"
#include "runtime/runtimes.h"

namespace rocecoll {
namespace {

// Numbers of open files, without the one that reads them.
std::set<std::string> OpenFiles() {
  std::set<std::string> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone && target.string().find("/fd") == std::string::npos) {
      open.insert(entry.path().filename().string());
    }
  }
  return open;
}

// True if `body` is, in a forked child.
bool InChild(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Fork, AChildHasNoneOfTheRuntimesDescriptors) {
  const auto before = OpenFiles();
  Runtimes runtimes(2);
  ASSERT_GT(OpenFiles().size(), before.size());
  EXPECT_TRUE(InChild([&] { return OpenFiles() == before; }));
}

TEST(Fork, AChildStartsASharedRuntimeOfItsOwn) {
  const auto parents = SharedRuntime({});
  ASSERT_TRUE(parents.ok()) << parents.status().message();
  const std::string address = parents.value()->address().text();
  EXPECT_TRUE(InChild([&] {
    const auto own = SharedRuntime({});
    if (!own.ok() || own.value()->address().text() == address) return false;
    const auto again = SharedRuntime({});
    return again.ok() && again.value() == own.value();
  }));
  const auto again = SharedRuntime({});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again.value(), parents.value());
}

}  // namespace
}  // namespace rocecoll
