// SPDX-License-Identifier: Apache-2.0
// Real network devices for a single test: a network namespace, which only root can make.
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

// Runs `test` on a separate thread in a new network namespace, after the shell commands have set it
// up. Returns false if they cannot; the test has not run then.
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
