// SPDX-License-Identifier: Apache-2.0
// Releases what completed operations kept alive, on a thread of its own. That may take a lock that
// another thread holds for long: the last reference to a tensor needs Python's. A thread that
// drives the engine must not wait for it, or heartbeats stop and peers take this process for dead.
// Thread safe.
#pragma once

#include <memory>
#include <vector>

#include "base/time.h"

namespace rocecoll {

using Owners = std::vector<std::shared_ptr<void>>;

class Disposer {
 public:
  Disposer();
  // What is left is released after this has returned, as the caller may hold that very lock. The
  // last owner may own this object, so that this runs on the thread itself.
  ~Disposer();
  Disposer(const Disposer&) = delete;
  Disposer& operator=(const Disposer&) = delete;

  // Empties `owners`. The thread is started by the first call for which the system has one. Bounded
  // by what callers submit.
  void let_go(Owners& owners);
  // Waits until everything has been released, at most `limit`.
  void drain(Duration limit);

 private:
  struct Queue;
  static void Serve(const std::shared_ptr<Queue>& queue);

  const std::shared_ptr<Queue> queue_;  // with the thread
};

}  // namespace rocecoll
