// SPDX-License-Identifier: Apache-2.0
// One wait for two descriptors.
#pragma once

#include "base/descriptor.h"
#include "base/status.h"
#include "transport/wait_handle.h"

namespace rocecoll {

class JoinedWait {
 public:
  // A handle without a descriptor never has anything. kNetwork if the system has no more
  // descriptors.
  Status join(WaitHandle first, WaitHandle second);
  // Readable when either of them is.
  WaitHandle handle() const { return handle_; }

 private:
  Descriptor epoll_fd_;  // if it takes one
  WaitHandle handle_;
};

}  // namespace rocecoll
