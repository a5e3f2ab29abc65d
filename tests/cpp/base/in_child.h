// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

namespace rocecoll {

// Returns true if `body` does so in a forked child, and none of its expectations fails.
inline bool InChild(const std::function<bool()>& body) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const bool good = body() && !testing::Test::HasFailure();
    std::fflush(stdout);
    _exit(good ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace rocecoll
