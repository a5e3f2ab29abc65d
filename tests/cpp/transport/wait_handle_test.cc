// SPDX-License-Identifier: Apache-2.0
#include "transport/wait_handle.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "base/descriptor.h"
#include "transport/readable.h"

namespace rocecoll {
namespace {

void Write(const Descriptor& event) {
  const uint64_t one = 1;
  ASSERT_EQ(::write(event, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
}

TEST(WaitHandle, TellsOfAnyDescriptor) {
  for (size_t ready = 0; ready < WaitHandle::kMostDescriptors; ++ready) {
    std::vector<Descriptor> events;
    WaitHandle handle;
    for (size_t i = 0; i < WaitHandle::kMostDescriptors; ++i) {
      events.emplace_back(::eventfd(0, EFD_CLOEXEC));
      handle = handle.joined(WaitHandle(events.back()));
    }
    EXPECT_FALSE(WaitReadable(handle, 0));
    Write(events[ready]);
    EXPECT_TRUE(WaitReadable(handle, 0));
  }
}

TEST(WaitHandle, WithoutADescriptorAddsNothing) {
  const Descriptor event(::eventfd(0, EFD_CLOEXEC));
  const WaitHandle one(event);
  for (const WaitHandle& handle : {one, one.joined({}), WaitHandle().joined(one)}) {
    ASSERT_EQ(handle.descriptors().size(), 1u);
    EXPECT_EQ(handle.descriptors().front(), event);
  }
  EXPECT_TRUE(WaitHandle().joined({}).descriptors().empty());
}

}  // namespace
}  // namespace rocecoll
