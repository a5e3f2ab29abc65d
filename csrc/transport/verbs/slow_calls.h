// SPDX-License-Identifier: Apache-2.0
// Calls of the verbs in which the kernel looks for the hardware address of a peer (ARP, neighbour
// discovery), which takes a second or more if nobody answers. They are made one after the other on
// a separate thread: the thread that drives the engine must not wait for them, or heartbeats stop
// and peers take this process for dead. Only one thread may use this class, apart from the calls
// that it runs itself.
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
  // Returns kNetwork if the system cannot provide a thread or a descriptor.
  static Result<std::unique_ptr<SlowCalls>> Start();
  // Waits for the call in progress. The others are not made, and no `end` is called.
  ~SlowCalls();
  SlowCalls(const SlowCalls&) = delete;
  SlowCalls& operator=(const SlowCalls&) = delete;

  // `call` runs on the other thread, then `end` on the thread that calls finish(). Neither throws.
  // Both are destroyed on the caller's thread. Callers bound how many there are: each belongs to a
  // queue pair or a peer, which has one at a time.
  uint64_t submit(std::function<void()> call, std::function<void()> end);
  // Returns false if the call is being made or has been made.
  bool withdraw(uint64_t id);
  // Runs the `end` of each call that is over. If there are none, this costs one load.
  void finish();
  // Readable while finished calls wait for finish().
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
