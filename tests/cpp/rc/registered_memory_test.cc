// SPDX-License-Identifier: Apache-2.0
// The numbers of announcements, which a long life uses up.
#include "transport/fast_paths/rc/registered_memory.h"

#include "rc/rc_world.h"

namespace rocecoll {
namespace {

TEST(RegisteredMemory, NumbersThatComeAgainNameNothingElse) {
  EventQueue queue;
  SimRdmaFabric fabric(queue);
  RdmaDevices devices;
  devices.push_back(fabric.add_device(SimRdmaFabric::DefaultLimits()));
  Rails rails(std::move(devices));
  RegisteredMemory memory(rails, std::numeric_limits<RegistrationId>::max() - 1);
  Bytes first(RegisteredMemory::kLeastPassingBytes);
  Bytes second(RegisteredMemory::kLeastPassingBytes);
  const RegistrationId last = memory.announce(first, /*writable=*/true);
  EXPECT_EQ(last, std::numeric_limits<RegistrationId>::max());
  const RegistrationId next = memory.announce(second, /*writable=*/true);
  EXPECT_NE(next, kUnregistered);
  Bytes unannounced(1000);
  auto copied = memory.lend_for_read({unannounced.data(), unannounced.size()}, false);
  ASSERT_TRUE(copied.ok()) << copied.status().message();
  EXPECT_NE(copied.value().data, unannounced.data());
  auto lent = memory.lend_for_read({second.data(), 1000, next}, false);
  ASSERT_TRUE(lent.ok()) << lent.status().message();
  EXPECT_EQ(lent.value().data, second.data());
  for (auto* lease : {&copied, &lent}) memory.give_back(lease->value());
  for (const RegistrationId announced : {last, next}) memory.withdraw(announced);
}

}  // namespace
}  // namespace rocecoll
