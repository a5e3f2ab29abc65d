// SPDX-License-Identifier: Apache-2.0
#include "queue.h"

#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

namespace fake_device {
namespace {

// Never destroyed: streams run on while the process exits.
struct State {
  std::mutex mutex;
  std::map<StreamKey, Queue*> queues;
  std::atomic<int64_t> copy_delay_us{0};
  std::condition_variable hold_changed;
  std::map<std::string, int64_t> holds;  // direction -> copies that may still pass
  std::atomic<int64_t> events{0};
  std::optional<StreamKey> captured;
  bool capture_valid = true;
  bool queries_held = false;
  std::set<int64_t> contexts;
  std::vector<std::string> log;
};

// As CUDA counts them.
constexpr int kGlobal = 0;
constexpr int kRelaxed = 2;
thread_local int capture_mode = kGlobal;

State& GlobalState() {
  static auto* state = new State;
  return *state;
}

}  // namespace

// What the driver of CUDA has, under the same name.
extern "C" int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(capture_mode, *mode);
  return 0;
}

void Marker::reach() {
  std::lock_guard lock(mutex_);
  reached_ = true;
  changed_.notify_all();
}

bool Marker::reached() {
  std::lock_guard lock(mutex_);
  return reached_;
}

void Marker::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return reached_; });
}

Queue::Queue() {
  std::thread([this] { serve(); }).detach();
}

void Queue::enqueue(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  arrived_.notify_one();
}

MarkerPtr Queue::mark() {
  auto marker = std::make_shared<Marker>();
  enqueue([marker] { marker->reach(); });
  return marker;
}

void Queue::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    arrived_.wait(lock, [this] { return !tasks_.empty(); });
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

Queue& QueueOf(StreamKey key) {
  State& state = GlobalState();
  std::lock_guard lock(state.mutex);
  Queue*& queue = state.queues[key];
  if (!queue) queue = new Queue;
  return *queue;
}

void SynchronizeDevice(int device) {
  State& state = GlobalState();
  std::vector<Queue*> queues;
  {
    std::lock_guard lock(state.mutex);
    for (const auto& [key, queue] : state.queues) {
      if (key.device == device) queues.push_back(queue);
    }
  }
  for (Queue* queue : queues) queue->mark()->wait();
}

void SetCopyDelay(int64_t microseconds) { GlobalState().copy_delay_us = microseconds; }

int64_t CopyDelayMicroseconds() { return GlobalState().copy_delay_us; }

void HoldCopies(const std::string& direction, int64_t free) {
  State& state = GlobalState();
  std::lock_guard lock(state.mutex);
  state.holds[direction] = free;
}

void ReleaseCopies() {
  State& state = GlobalState();
  std::lock_guard lock(state.mutex);
  state.holds.clear();
  state.hold_changed.notify_all();
}

void PassHold(const std::string& direction) {
  State& state = GlobalState();
  std::unique_lock lock(state.mutex);
  const auto hold = state.holds.find(direction);
  if (hold == state.holds.end()) return;
  if (hold->second > 0) {
    --hold->second;
    return;
  }
  state.hold_changed.wait(lock, [&] { return !state.holds.contains(direction); });
}

void HoldQueries() {
  State& state = GlobalState();
  std::lock_guard lock(state.mutex);
  state.queries_held = true;
}

void ReleaseQueries() {
  State& state = GlobalState();
  std::lock_guard lock(state.mutex);
  state.queries_held = false;
  state.hold_changed.notify_all();
}

void PassQueryHold() {
  State& state = GlobalState();
  std::unique_lock lock(state.mutex);
  state.hold_changed.wait(lock, [&] { return !state.queries_held; });
}

void BeginCapture(StreamKey key) {
  State& state = GlobalState();
  std::lock_guard lock(state.mutex);
  state.captured = key;
  state.capture_valid = true;
}

bool EndCapture() {
  State& state = GlobalState();
  std::lock_guard lock(state.mutex);
  state.captured.reset();
  return state.capture_valid;
}

bool IsCapturing(StreamKey key) {
  State& state = GlobalState();
  std::lock_guard lock(state.mutex);
  return state.captured == key;
}

void MindCapture() {
  if (capture_mode == kRelaxed) return;
  State& state = GlobalState();
  std::lock_guard lock(state.mutex);
  if (!state.captured) return;
  state.capture_valid = false;
  throw std::runtime_error("fake device: not permitted when a stream is capturing");
}

void MindCaptureOf(StreamKey key) {
  State& state = GlobalState();
  std::lock_guard lock(state.mutex);
  if (state.captured != key) return;
  state.capture_valid = false;
  throw std::runtime_error("fake device: the stream is capturing");
}

void CountEvents(int64_t change) { GlobalState().events += change; }

int64_t Events() { return GlobalState().events; }

void MakeContext(int device) {
  State& state = GlobalState();
  std::lock_guard lock(state.mutex);
  state.contexts.insert(device);
}

std::vector<int64_t> TakeContexts() {
  State& state = GlobalState();
  std::lock_guard lock(state.mutex);
  const std::set<int64_t> contexts = std::exchange(state.contexts, {});
  return {contexts.begin(), contexts.end()};
}

void Log(const std::string& what, const std::string& direction, size_t bytes, StreamKey key) {
  State& state = GlobalState();
  std::lock_guard lock(state.mutex);
  state.log.push_back(what + " " + direction + " " + std::to_string(bytes) + " " +
                      std::to_string(key.device) + ":" + std::to_string(key.stream));
}

std::vector<std::string> TakeLog() {
  State& state = GlobalState();
  std::lock_guard lock(state.mutex);
  return std::exchange(state.log, {});
}

}  // namespace fake_device
