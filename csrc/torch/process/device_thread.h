// SPDX-License-Identifier: Apache-2.0
// The one thread of a process that dispatches copies of a device and asks for its events. A
// device's runtime may keep whoever calls it waiting, as for another thread that synchronizes the
// device, and it minds which device a thread is set to. So no thread that has something else to do
// calls it: not the one that drives the engine, which has to be heard of by other ranks, and not
// the callers, but for what only they can do, such as recording an event on their current stream.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

namespace rocecoll::torch_adapter {

// Sets a thread of ours to the device for good. Guards set a thread back to where it was, and on a
// thread that was nowhere that is the first device, where a context of some 500 MB would be made.
void SitOn(c10::Device device);

class DeviceThread {
 public:
  // Started at first use, never ended. Throws std::system_error if there can be none.
  static DeviceThread& of(c10::Device device);
  // Waits until none has anything to do, for each at most `limit`.
  static void drain_all(std::chrono::nanoseconds limit);

  // Runs `task` there, after those before. It must not throw, nor wait for what others hold. The
  // queue is bounded by the operations in flight and their lanes.
  void post(std::function<void()> task);
  // On the thread itself: has `ended` called again and again, until it says so.
  void watch(std::function<bool()> ended) { watches_.push_back(std::move(ended)); }

  explicit DeviceThread(c10::Device device);
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

 private:
  void serve();
  bool look();
  void pause(std::unique_lock<std::mutex>& lock);
  void drain(std::chrono::nanoseconds limit);

  const c10::Device device_;
  std::vector<std::function<bool()>> watches_;  // of the thread
  uint32_t looks_ = 0;                          // since something happened
  std::chrono::nanoseconds nap_{0};             // the last one since then
  std::mutex mutex_;
  std::condition_variable task_arrived_;
  std::condition_variable became_quiet_;
  std::deque<std::function<void()>> tasks_;
  bool idle_ = false;
};

}  // namespace rocecoll::torch_adapter
