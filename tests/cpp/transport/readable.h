// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <vector>

#include "transport/wait_handle.h"

namespace rocecoll {

// Whether a descriptor of the handle becomes readable in time.
inline bool WaitReadable(const WaitHandle& handle, int timeout_ms) {
  std::vector<pollfd> items;
  for (const int descriptor : handle.descriptors()) items.push_back({descriptor, POLLIN, 0});
  return ::poll(items.data(), items.size(), timeout_ms) > 0;
}

}  // namespace rocecoll
