// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/locked_memory.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "verbs/ud_world.h"

namespace rocecoll {
namespace {

// While this object lives, the process may lock only this much, and may not ignore the limit.
class LimitedMemory {
 public:
  explicit LimitedMemory(uint64_t bytes) {
    EXPECT_EQ(getrlimit(RLIMIT_MEMLOCK, &limit_), 0);
    EXPECT_EQ(syscall(SYS_capget, &header_, before_.data()), 0);
    auto without = before_;
    without[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
    EXPECT_EQ(syscall(SYS_capset, &header_, without.data()), 0);
    const rlimit lower{std::min<rlim_t>(bytes, limit_.rlim_max), limit_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_MEMLOCK, &lower), 0);
  }
  ~LimitedMemory() {
    EXPECT_EQ(setrlimit(RLIMIT_MEMLOCK, &limit_), 0);
    EXPECT_EQ(syscall(SYS_capset, &header_, before_.data()), 0);
  }

 private:
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> before_{};
  rlimit limit_{};
};

TEST(LockedMemory, RefusesWhatTheLimitDoesNotAllow) {
  const LockedMemoryLimit limit{8 << 20};
  EXPECT_EQ(LockedMemoryProblem({}, UINT64_MAX - 1, 1 << 20), "");
  EXPECT_EQ(LockedMemoryProblem(limit, 0, 8 << 20), "");
  EXPECT_EQ(LockedMemoryProblem(limit, 7 << 20, 1 << 20), "");
  for (const std::string& text : {LockedMemoryProblem(limit, 0, (8 << 20) + 1),
                                  LockedMemoryProblem(limit, (7 << 20) + 1, 1 << 20),
                                  LockedMemoryProblem(limit, 9 << 20, 1)}) {
    EXPECT_NE(text.find("may lock 8 MiB"), std::string::npos) << text;
    for (const char* cure : {"ulimit -l unlimited", "limits.conf", "--ulimit memlock=-1"}) {
      EXPECT_NE(text.find(cure), std::string::npos) << text;
    }
  }
}

TEST(LockedMemory, ReadsTheLimitOfThisProcess) {
  const LimitedMemory limited(64 << 10);
  EXPECT_EQ(ReadLockedMemoryLimit().bytes, uint64_t{64} << 10);
}

TEST(LockedMemory, ADeviceCountsWhatIsRegistered) {
  if (const std::string reason = NoDevices(1); !reason.empty()) GTEST_SKIP() << reason;
  RdmaEnd end(UsableDevices()[0], {});                  // 1 MiB
  const LimitedMemory limited((2 << 20) - (64 << 10));  // the system counts whole pages
  const Result<MemoryRegion> refused =
      end.device->register_memory(end.memory, RemoteAccess::kWrite);
  ASSERT_EQ(refused.status().code(), StatusCode::kNetwork);
  EXPECT_NE(refused.status().message().find("ulimit -l unlimited"), std::string::npos)
      << refused.status().message();
  const Result<MemoryRegion> half = end.device->register_memory(
      std::span(end.memory).first(end.memory.size() / 2), RemoteAccess::kWrite);
  ASSERT_TRUE(half.ok()) << half.status().message();
  end.device->deregister(half.value());
}

TEST(LockedMemory, ADatagramPortThatMayNotLockItsBuffersSaysTheCure) {
  if (const std::string reason = NoDevices(1); !reason.empty()) GTEST_SKIP() << reason;
  const LimitedMemory limited(64 << 10);
  const auto refused = UdPort::Open({.hca = "=" + UsableDevices()[0]});
  ASSERT_EQ(refused.status().code(), StatusCode::kNetwork);
  EXPECT_NE(refused.status().message().find("ulimit -l unlimited"), std::string::npos)
      << refused.status().message();
}

}  // namespace
}  // namespace rocecoll
