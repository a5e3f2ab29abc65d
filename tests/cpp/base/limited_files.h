// SPDX-License-Identifier: Apache-2.0
// A process that has hardly any descriptors left. For children: the limit stays.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

namespace rocecoll {

// From now on this process can have `count` files open besides those that it has.
inline void AllowMoreFiles(size_t count) {
  std::vector<int> opened;
  while (opened.size() <= count) {
    opened.push_back(::dup(STDERR_FILENO));  // the lowest number that is free
    ASSERT_GE(opened.back(), 0);
  }
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = static_cast<rlim_t>(opened.back());  // the first number that is too high
  for (const int fd : opened) ::close(fd);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

}  // namespace rocecoll
