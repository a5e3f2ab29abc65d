// SPDX-License-Identifier: Apache-2.0
// Leaves a process hardly any descriptors. Use it in child processes, because the limit stays.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

namespace rocecoll {

// The undefined behaviour sanitizer uses a pipe to find out whether it may read an object, and
// reports each object as wrong if it gets no pipe. Its preset is that of the address sanitizer.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitizerTakesFiles = true;
#else
inline constexpr bool kSanitizerTakesFiles = false;
#endif

// From now on this process can open `count` more files.
inline void AllowMoreFiles(size_t count) {
  std::vector<int> opened;
  while (opened.size() <= count) {
    opened.push_back(::dup(STDERR_FILENO));  // the lowest free number
    ASSERT_GE(opened.back(), 0);
  }
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = static_cast<rlim_t>(opened.back());  // the first number beyond the limit
  for (const int fd : opened) ::close(fd);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

}  // namespace rocecoll
