// SPDX-License-Identifier: Apache-2.0
#include "base/open_files.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <regex>

#include "base/descriptor.h"
#include "base/in_child.h"
#include "base/limited_files.h"
#include "base/system_error.h"

namespace rocecoll {
namespace {

bool IsPlain(const std::string& message, const std::string& before) {
  static const std::regex kWords(
      "too many open files: this process may have [0-9]+ and needs about [0-9]+; raise `ulimit "
      "-n`");
  EXPECT_TRUE(message.starts_with(before)) << message;
  const bool plain = std::regex_match(message.substr(before.size()), kWords);
  EXPECT_TRUE(plain) << message;
  return plain;
}

TEST(OpenFiles, AreRequiredAsManyAsThereCanBe) {
  EXPECT_TRUE(InChild([] {
    AllowMoreFiles(5);
    for (const size_t count : {0, 1, 5}) EXPECT_TRUE(RequireOpenFiles(count).ok()) << count;
    const Status refused = RequireOpenFiles(6);
    EXPECT_EQ(refused.code(), StatusCode::kNetwork);
    return IsPlain(refused.message(), "") && RequireOpenFiles(5).ok();
  }));
}

TEST(OpenFiles, TheNumberToRaiseTheLimitToIsEnough) {
  EXPECT_TRUE(InChild([] {
    AllowMoreFiles(3);
    const std::string message = RequireOpenFiles(100).message();
    rlimit limit{};
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = std::stoul(message.substr(message.find("about ") + 6));
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0) << message;
    return RequireOpenFiles(100).ok();
  }));
}

TEST(OpenFiles, SystemErrorsSayTheCure) {
  EXPECT_TRUE(InChild([] {
    AllowMoreFiles(0);
    EXPECT_FALSE(Descriptor(eventfd(0, EFD_CLOEXEC)).valid());
    return IsPlain(SystemError("cannot open it").message(), "cannot open it: ");
  }));
  EXPECT_EQ(SystemError("cannot open it", ENOENT).message(),
            "cannot open it: No such file or directory");
}

}  // namespace
}  // namespace rocecoll
