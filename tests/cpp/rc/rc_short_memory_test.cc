// SPDX-License-Identifier: Apache-2.0
// Devices that register hardly any memory, for many links that all write at once.
#include "conformance/exchange.h"
#include "rc/rc_world.h"

namespace rocecoll {
namespace {

constexpr size_t kKib = size_t{1} << 10;

// Receive buffers of many links once left nothing for frames on their way out.
TEST(RcShortMemory, ManyLinksWriteWithWhateverMemoryThereIs) {
  for (uint64_t bytes = 16 * kKib; bytes < 16'384 * kKib; bytes += bytes / 8) {
    SCOPED_TRACE(bytes);
    RcWorldOptions options;
    options.limits.max_registered_bytes = bytes;
    RcWorld world(3, options);
    ASSERT_NO_FATAL_FAILURE(TransferOverLinksOfManyGroups(world));
  }
}

}  // namespace
}  // namespace rocecoll
