// SPDX-License-Identifier: Apache-2.0
// Lets go what completed operations kept alive, on a thread of its own. That may take a lock which
// somebody keeps for long: the last reference to a tensor needs Python's. A thread that drives the
// engine must not wait for it, or heartbeats stop and peers take this process for dead. Thread
// safe.
#pragma once

#include <memory>
#include <vector>

#include "base/time.h"

namespace rocecoll {

using Owners = std::vector<std::shared_ptr<void>>;

class Disposer {
 public:
  Disposer();
  // What is left is still let go, after this has returned: its caller may hold the very lock. The
  // last owner may be what this belongs to, so that this runs on the thread itself.
  ~Disposer();
  Disposer(const Disposer&) = delete;
  Disposer& operator=(const Disposer&) = delete;

  // Empties `owners`. The thread is started by the first call. Bounded by what callers submit.
  void let_go(Owners& owners);
  // Waits until all has been let go, at most `limit`.
  void drain(Duration limit);

 private:
  struct Queue;
  static void Serve(const std::shared_ptr<Queue>& queue);

  const std::shared_ptr<Queue> queue_;  // with the thread
};

}  // namespace rocecoll
