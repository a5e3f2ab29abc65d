// SPDX-License-Identifier: Apache-2.0
// Sleeping on a descriptor, with a way to be woken by another thread.
#pragma once

#include "base/descriptor.h"
#include "base/status.h"
#include "base/time.h"
#include "transport/wait_handle.h"

namespace rocecoll {

class Waker {
 public:
  Waker();  // a failed check when the process has no descriptor left

  // Thread safe. Sticky: wakes the sleep() that is under way, else the next one.
  void wake();
  // Sleeps until `handle` is readable (an fd below 0: never), wake(), or `limit` has passed. Takes
  // one wake() back.
  void sleep(WaitHandle handle, Duration limit);

 private:
  const Descriptor fd_;
};

}  // namespace rocecoll
