// SPDX-License-Identifier: Apache-2.0
#include "torch/process/runtime_handle.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <utility>

#include "torch/process/completion_pool.h"

namespace rocecoll::torch_adapter {
namespace {

// What callbacks of the program may still take when it ends.
constexpr Duration kDrainLimit = std::chrono::seconds(2);

constexpr const char* kForked =
    "rocecoll: this process was forked from the one that made the process group, and cannot use it "
    "(the thread and the connections stayed there). Start such a process by the spawn or "
    "forkserver method and call init_process_group in it";

}  // namespace

std::atomic<uint64_t> RuntimeHandle::forks_{0};

void RuntimeHandle::ThrowForked() { TORCH_CHECK_WITH(DistBackendError, false, kForked); }

RuntimeHandle::RuntimeHandle(std::shared_ptr<Progress> progress, RuntimeOptions options)
    : owner_(forks_.load()), progress_(std::move(progress)), options_(std::move(options)) {
  ROCECOLL_CHECK(progress_ != nullptr);
  static const int watching =
      pthread_atfork(nullptr, nullptr, [] { forks_.fetch_add(1, std::memory_order_relaxed); });
  ROCECOLL_CHECK(watching == 0);
}

RuntimeHandle::~RuntimeHandle() {
  if (in_child()) {
    new std::shared_ptr<Progress>(std::move(progress_));  // never freed
  }
}

Result<GroupId> RuntimeHandle::add_group(GroupSpec spec) {
  if (in_child()) return Status(StatusCode::kAborted, kForked);
  return progress_->add_group(std::move(spec));
}

void RuntimeHandle::remove_group(GroupId group) {
  if (!in_child()) progress_->remove_group(group);
}

EngineState RuntimeHandle::state() const { return in_child() ? EngineState{} : progress_->state(); }

void RuntimeHandle::shutdown() {
  if (in_child()) return;
  progress_->shutdown();
  CompletionPool::instance().drain(kDrainLimit);
}

}  // namespace rocecoll::torch_adapter
