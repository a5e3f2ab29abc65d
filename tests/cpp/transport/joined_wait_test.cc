// SPDX-License-Identifier: Apache-2.0
#include "transport/joined_wait.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace rocecoll {
namespace {

bool Readable(WaitHandle handle) {
  pollfd item{handle.fd, POLLIN, 0};
  return ::poll(&item, 1, 0) == 1;
}

void Write(const Descriptor& event) {
  const uint64_t one = 1;
  ASSERT_EQ(::write(event, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
}

TEST(JoinedWait, EitherOfTwoEndsIt) {
  for (const bool first : {true, false}) {
    const Descriptor a(::eventfd(0, EFD_CLOEXEC));
    const Descriptor b(::eventfd(0, EFD_CLOEXEC));
    JoinedWait wait;
    ASSERT_TRUE(wait.join({a}, {b}).ok());
    EXPECT_FALSE(Readable(wait.handle()));
    Write(first ? a : b);
    EXPECT_TRUE(Readable(wait.handle()));
  }
}

TEST(JoinedWait, OneDescriptorNeedsNoSecond) {
  const Descriptor a(::eventfd(0, EFD_CLOEXEC));
  JoinedWait wait;
  ASSERT_TRUE(wait.join({a}, {}).ok());
  EXPECT_EQ(wait.handle().fd, a);
  ASSERT_TRUE(wait.join({}, {a}).ok());
  EXPECT_EQ(wait.handle().fd, a);
  ASSERT_TRUE(wait.join({}, {}).ok());
  EXPECT_LT(wait.handle().fd, 0);
}

TEST(JoinedWait, SaysWhyItCannot) {
  const Descriptor a(::eventfd(0, EFD_CLOEXEC));
  JoinedWait wait;
  const Status status = wait.join({a}, {a});  // the same twice: EEXIST
  EXPECT_EQ(status.code(), StatusCode::kNetwork);
  EXPECT_NE(status.message().find("File exists"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace rocecoll
