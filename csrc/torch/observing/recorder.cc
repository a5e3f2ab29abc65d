// SPDX-License-Identifier: Apache-2.0
#include "torch/observing/recorder.h"

#include <c10/util/thread_name.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace rocecoll::torch_adapter {
namespace {

int64_t SteadyNs() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

int64_t ClockOffsetNs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::nanoseconds(now).count() - SteadyNs();
}

void CallRecord::start() { started_ns_.store(SteadyNs(), std::memory_order_relaxed); }

void CallRecord::refuse() { started_ns_.store(0, std::memory_order_relaxed); }

void CallRecord::end(const std::string& error, Rank source) {
  std::lock_guard lock(error_mutex_);
  if (ended_ns_.load(std::memory_order_relaxed) != 0) return;
  error_ = error;
  source_ = source;
  ended_ns_.store(SteadyNs(), std::memory_order_release);
}

std::string CallRecord::error() const {
  std::lock_guard lock(error_mutex_);
  return error_;
}

std::optional<int> CallRecord::peer() const {
  std::lock_guard lock(error_mutex_);
  const bool arrived = ended_ns_.load(std::memory_order_relaxed) != 0 && error_.empty();
  return root == -1 && arrived ? static_cast<int>(source_) : root;
}

Recorder& Recorder::instance() {
  static auto* recorder = new Recorder;
  return *recorder;
}

uint64_t Recorder::start(size_t capacity) {
  std::lock_guard lock(mutex_);
  if (users_++ == 0) begin_id_ = next_id_;
  capacity_ = std::max(capacity_, capacity);
  enabled_.store(true, std::memory_order_relaxed);
  return next_id_;
}

void Recorder::stop() {
  std::deque<CallRecordPtr> old;  // freed after the lock
  std::lock_guard lock(mutex_);
  if (users_ == 0 || --users_ > 0) return;
  enabled_.store(false, std::memory_order_relaxed);
  capacity_ = 0;
  old.swap(ring_);
}

void Recorder::add(const CallRecordPtr& record) {
  CallRecordPtr oldest;  // freed after the lock
  std::lock_guard lock(mutex_);
  if (users_ == 0) return;
  record->id = next_id_++;
  ring_.push_back(record);
  if (ring_.size() <= capacity_) return;
  oldest = std::move(ring_.front());
  ring_.pop_front();
}

Recorder::Excerpt Recorder::since(uint64_t first) const {
  std::lock_guard lock(mutex_);
  first = std::max(first, begin_id_);
  const uint64_t oldest = next_id_ - ring_.size();
  Excerpt excerpt;
  excerpt.dropped = oldest > first ? oldest - first : 0;
  const uint64_t skipped = std::min<uint64_t>(first > oldest ? first - oldest : 0, ring_.size());
  excerpt.records.assign(ring_.begin() + static_cast<int64_t>(skipped), ring_.end());
  return excerpt;
}

void RecordCaller(CallRecord& record) {
  record.enqueued_ns = SteadyNs();
  thread_local const int64_t thread_id = ::syscall(SYS_gettid);  // glibc 2.28 has no gettid()
  record.thread_id = thread_id;
  record.thread_name = c10::getThreadName();
  record.initiator = torch::CapturedTraceback::gather(true, false, false);
}

}  // namespace rocecoll::torch_adapter
