// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/slow_calls.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "transport/verbs/verbs_error.h"

namespace rocecoll {

Result<std::unique_ptr<SlowCalls>> SlowCalls::Start() {
  Descriptor wake(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake.valid()) return VerbsError("RoCE", "make an event descriptor", errno);
  std::unique_ptr<SlowCalls> made(new SlowCalls(std::move(wake)));
  try {
    made->thread_ = std::thread([of = made.get()] { of->serve(); });
  } catch (const std::system_error& error) {
    return VerbsError("RoCE", "start a thread", error.code().value());
  }
  return made;
}

SlowCalls::~SlowCalls() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

uint64_t SlowCalls::submit(std::function<void()> call, std::function<void()> end) {
  const uint64_t id = next_id_++;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({id, std::move(call), std::move(end)});
  }
  changed_.notify_one();
  return id;
}

bool SlowCalls::withdraw(uint64_t id) {
  Entry withdrawn;  // released without the lock
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(waiting_, id, &Entry::id);
  if (found == waiting_.end()) return false;
  withdrawn = std::move(*found);
  waiting_.erase(found);
  return true;
}

void SlowCalls::finish() {
  if (!any_over_.load(std::memory_order_acquire)) return;
  std::vector<Entry> over;
  {
    const std::lock_guard lock(mutex_);
    over.swap(over_);
    any_over_.store(false, std::memory_order_relaxed);
    uint64_t count = 0;
    static_cast<void>(!read(wake_, &count, sizeof(count)));
  }
  for (const Entry& entry : over) entry.end();
}

void SlowCalls::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
    if (closed_) return;
    Entry entry = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    entry.call();
    lock.lock();
    over_.push_back(std::move(entry));
    any_over_.store(true, std::memory_order_release);
    const uint64_t one = 1;
    static_cast<void>(!write(wake_, &one, sizeof(one)));
  }
}

}  // namespace rocecoll
