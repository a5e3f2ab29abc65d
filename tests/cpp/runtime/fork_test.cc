// SPDX-License-Identifier: Apache-2.0
// What a child of fork() has of its parent's runtime: nothing that is open.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/in_child.h"
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

TEST(Fork, AChildHasNoneOfTheRuntimesDescriptors) {
  const auto before = OpenFiles();
  Runtimes runtimes(2);
  ASSERT_GT(OpenFiles().size(), before.size());
  EXPECT_TRUE(InChild([&] { return OpenFiles() == before; }));
}

}  // namespace
}  // namespace rocecoll
