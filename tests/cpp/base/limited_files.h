// SPDX-License-Identifier: Apache-2.0
// A process that has hardly any descriptors left. For children: the limit stays.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

namespace rocecoll {

// The undefined behaviour sanitizer looks through a pipe whether it may read an object, and takes
// each for a wrong one where there is none. The preset that has it is that of the address
// sanitizer.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitizerTakesFiles = true;
#else
inline constexpr bool kSanitizerTakesFiles = false;
#endif

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
