// SPDX-License-Identifier: Apache-2.0
#include "base/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <utility>

namespace rocecoll {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0 || errno != EBADF; }

Descriptor Open() { return Descriptor(eventfd(0, EFD_CLOEXEC)); }

// Returns what `body` returns in a forked child.
int InChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Descriptor, IsClosedWithItsOwner) {
  int fd = -1;
  {
    const Descriptor descriptor = Open();
    fd = descriptor;
    ASSERT_TRUE(descriptor.valid());
    EXPECT_TRUE(IsOpen(fd));
  }
  EXPECT_FALSE(IsOpen(fd));
  EXPECT_FALSE(Descriptor(-1).valid());
}

TEST(Descriptor, MovesToAnotherOwner) {
  Descriptor first = Open();
  const int fd = first;
  Descriptor second(std::move(first));
  EXPECT_EQ(second, fd);
  Descriptor third = Open();
  const int replaced = third;
  third = std::move(second);
  EXPECT_FALSE(IsOpen(replaced));
  EXPECT_EQ(third, fd);
  EXPECT_TRUE(IsOpen(fd));
}

TEST(Descriptor, IsClosedInAForkedChildOnly) {
  const Descriptor first = Open();
  Descriptor moved = Open();
  const Descriptor second(std::move(moved));
  EXPECT_EQ(InChild([&, a = int{first}, b = int{second}] {
              return IsOpen(a) || IsOpen(b) || first.valid() || second.valid() ? 1 : 0;
            }),
            0);
  EXPECT_TRUE(IsOpen(first));
  EXPECT_TRUE(IsOpen(second));
}

// The child's own files get the numbers that became free; the parent's objects must not touch them.
TEST(Descriptor, AForkedChildMayDropTheParentsAndOpenItsOwn) {
  std::optional<Descriptor> inherited(Open());
  EXPECT_EQ(InChild([&] {
              const Descriptor own = Open();
              inherited.reset();
              if (!IsOpen(own)) return 1;
              // The descriptors of a child are closed in its own children.
              return InChild([&, fd = int{own}] { return IsOpen(fd) ? 1 : 0; });
            }),
            0);
  EXPECT_TRUE(IsOpen(*inherited));
}

}  // namespace
}  // namespace rocecoll
