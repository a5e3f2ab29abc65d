// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace rocecoll {

// What a thread may sleep on until a port or a transport has something to do. The descriptor
// becomes readable (level triggered) then; `fd < 0` means that nothing ever arrives from outside
// (the simulator). Owned by whoever returned it.
struct WaitHandle {
  int fd = -1;
};

}  // namespace rocecoll
