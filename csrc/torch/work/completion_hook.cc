// SPDX-License-Identifier: Apache-2.0
#include "torch/work/completion_hook.h"

#include <c10/util/Exception.h>

#include <utility>

#include "base/named_status.h"
#include "engine/progress/progress.h"
#include "interpreter/signals.h"

namespace rocecoll::torch_adapter {

void CompletionHook::set(Function function) {
  TORCH_CHECK(!is_set(), "ProcessGroupRocecoll: OnCompletion hook already registered");
  function_ = std::move(function);
  set_.store(true, std::memory_order_release);
}

void CompletionHook::expect() {
  const std::lock_guard lock(mutex_);
  ++expected_;
}

void CompletionHook::completed(std::shared_ptr<c10d::WorkInfo> info) {
  queue_->run([self = shared_from_this(), info = std::move(info)] {
    try {
      if (info != nullptr) self->function_(info);
    } catch (const std::exception& error) {
      TORCH_WARN(kNamePrefix, "the OnCompletion hook raised: ", error.what());
    }
    const std::lock_guard lock(self->mutex_);
    if (--self->expected_ == 0) self->became_none_.notify_all();
  });
}

void CompletionHook::wait_for_all() {
  std::unique_lock lock(mutex_);
  while (!became_none_.wait_for(lock, Progress::kLookInterval, [this] { return expected_ == 0; })) {
    lock.unlock();
    RunSignalHandlers();
    lock.lock();
  }
}

}  // namespace rocecoll::torch_adapter
