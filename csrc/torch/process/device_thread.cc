// SPDX-License-Identifier: Apache-2.0
#include "torch/process/device_thread.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <sched.h>

#include <algorithm>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "base/per_process.h"
#include "torch/process/capture_mode.h"
#include "torch/process/run_all.h"

namespace rocecoll::torch_adapter {
namespace {

// So many looks follow one another, as what was begun last may be over at once: some 50 us.
constexpr uint32_t kLooksAtOnce = 50;
// Then a nap lies between two, each longer than the last by an eighth, within these bounds: a
// gradient may be computed for many milliseconds, and looking must not burn a core.
constexpr std::chrono::microseconds kShortestNap(20);
constexpr std::chrono::microseconds kLongestNap(200);

struct DeviceThreads {
  std::mutex mutex;
  std::map<c10::DeviceIndex, std::unique_ptr<DeviceThread>> threads;  // all of one type
};

}  // namespace

void SitOn(c10::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  if (guard.getDevice() != device) guard.setDevice(device);
}

DeviceThread& DeviceThread::of(c10::Device device) {
  auto& all = PerProcess<DeviceThreads>::instance();
  const std::lock_guard lock(all.mutex);
  auto& thread = all.threads[device.index()];
  if (thread == nullptr) thread = std::make_unique<DeviceThread>(device);
  return *thread;
}

void DeviceThread::drain_all(std::chrono::nanoseconds limit) {
  auto& all = PerProcess<DeviceThreads>::instance();
  std::vector<DeviceThread*> threads;
  {
    const std::lock_guard lock(all.mutex);
    for (const auto& [index, thread] : all.threads) threads.push_back(thread.get());
  }
  for (DeviceThread* thread : threads) thread->drain(limit);
}

DeviceThread::DeviceThread(c10::Device device) : device_(device) {
  std::thread([this] { serve(); }).detach();
}

void DeviceThread::post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  task_arrived_.notify_one();
}

void DeviceThread::drain(std::chrono::nanoseconds limit) {
  std::unique_lock lock(mutex_);
  became_quiet_.wait_for(lock, limit, [this] { return idle_ && tasks_.empty(); });
}

// Whether one of the watches has ended.
bool DeviceThread::look() {
  return std::erase_if(watches_, [](const auto& ended) { return ended(); }) > 0;
}

void DeviceThread::pause(std::unique_lock<std::mutex>& lock) {
  if (++looks_ <= kLooksAtOnce) {
    lock.unlock();
    sched_yield();
    lock.lock();
    return;
  }
  nap_ = std::clamp<std::chrono::nanoseconds>(nap_ + nap_ / 8, kShortestNap, kLongestNap);
  task_arrived_.wait_for(lock, nap_, [this] { return !tasks_.empty(); });
}

void DeviceThread::serve() {
  try {
    SitOn(device_);
  } catch (const std::exception&) {  // the tasks will meet, and tell, what is wrong with the device
  }
  const RelaxedCapture relaxed;  // for whatever copies do inside
  std::unique_lock lock(mutex_);
  while (true) {
    bool happened = !tasks_.empty();
    RunAll(tasks_, lock);
    lock.unlock();
    happened = look() || happened;
    lock.lock();
    if (happened) {
      looks_ = 0;
      nap_ = {};
    }
    if (!tasks_.empty()) continue;
    if (!watches_.empty()) {
      pause(lock);
      continue;
    }
    idle_ = true;
    became_quiet_.notify_all();
    task_arrived_.wait(lock, [this] { return !tasks_.empty(); });
    idle_ = false;
  }
}

}  // namespace rocecoll::torch_adapter
