// SPDX-License-Identifier: Apache-2.0
// Real network devices for a test alone: a network namespace, which takes root to make.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace rocecoll {

inline bool Run(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

// Runs `test` on a thread of its own in a new network namespace after the shell commands have set
// that up. False if they cannot; then the test has not run.
template <typename Test>
bool InOwnNetwork(const std::vector<std::string>& commands, Test test) {
  bool made = false;
  std::thread([&] {
    if (unshare(CLONE_NEWNET) != 0) return;
    for (const std::string& command : commands) {
      if (!Run(command)) return;
    }
    made = true;
    test();
  }).join();
  return made;
}

}  // namespace rocecoll
