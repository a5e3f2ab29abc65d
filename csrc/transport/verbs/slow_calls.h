// SPDX-License-Identifier: Apache-2.0
// Calls of the verbs in which the kernel looks for the hardware address of a peer (ARP, neighbour
// discovery), a second or more if nobody answers. They are made one after the other on a thread of
// their own: who drives the engine must not wait for them, or heartbeats stop and peers take this
// process for dead. Used by one thread at a time, but for what it runs itself.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "base/status.h"

namespace rocecoll {

class SlowCalls {
 public:
  // kNetwork if the system has no thread, or descriptor, to give.
  static Result<std::unique_ptr<SlowCalls>> Start();
  // Waits for the call that is being made. The others are not made; of none is the end told.
  ~SlowCalls();
  SlowCalls(const SlowCalls&) = delete;
  SlowCalls& operator=(const SlowCalls&) = delete;

  // `call` is made on the other thread, then `end` on the one that calls finish(). Neither throws.
  // Both are let go on the caller's thread. Callers bound how many there are: each is of a queue
  // pair or a peer, which has one at a time.
  uint64_t submit(std::function<void()> call, std::function<void()> end);
  // False: it is being made, or has been.
  bool withdraw(uint64_t id);
  // The ends of calls that are over. Costs a load where there are none.
  void finish();
  // Readable while there are some.
  int wake_descriptor() const { return wake_; }

 private:
  struct Entry {
    uint64_t id = 0;
    std::function<void()> call;
    std::function<void()> end;
  };
  explicit SlowCalls(Descriptor wake) : wake_(std::move(wake)) {}
  void serve();

  const Descriptor wake_;  // an eventfd
  uint64_t next_id_ = 1;
  std::atomic<bool> any_over_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> waiting_;
  std::vector<Entry> over_;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace rocecoll
