// SPDX-License-Identifier: Apache-2.0
#include "engine/progress/disposer.h"

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace rocecoll {

struct Disposer::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  Owners waiting;
  bool busy = false;
  bool started = false;
  bool closed = false;
};

Disposer::Disposer() : queue_(std::make_shared<Queue>()) {}

Disposer::~Disposer() {
  const std::lock_guard lock(queue_->mutex);
  queue_->closed = true;
  queue_->changed.notify_all();
}

void Disposer::let_go(Owners& owners) {
  if (owners.empty()) return;
  const std::lock_guard lock(queue_->mutex);
  queue_->waiting.insert(queue_->waiting.end(), std::make_move_iterator(owners.begin()),
                         std::make_move_iterator(owners.end()));
  owners.clear();
  if (!queue_->started) {
    try {
      std::thread(Serve, queue_).detach();
      queue_->started = true;
    } catch (const std::system_error&) {  // the system has none to give now: the next call asks
    }
  }
  queue_->changed.notify_all();
}

void Disposer::drain(Duration limit) {
  const Duration bounded = std::min(limit, Duration::max() / 2);  // whose end every clock can tell
  std::unique_lock lock(queue_->mutex);
  queue_->changed.wait_for(lock, bounded,
                           [this] { return queue_->waiting.empty() && !queue_->busy; });
}

void Disposer::Serve(const std::shared_ptr<Queue>& queue) {
  std::unique_lock lock(queue->mutex);
  while (true) {
    queue->changed.wait(lock, [&] { return queue->closed || !queue->waiting.empty(); });
    if (queue->waiting.empty()) return;
    Owners owners = std::exchange(queue->waiting, {});
    queue->busy = true;
    lock.unlock();
    owners.clear();
    lock.lock();
    queue->busy = false;
    queue->changed.notify_all();
  }
}

}  // namespace rocecoll
