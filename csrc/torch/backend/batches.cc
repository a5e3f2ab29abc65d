// SPDX-License-Identifier: Apache-2.0
#include "torch/backend/batches.h"

#include <utility>

#include "base/named_status.h"
namespace rocecoll::torch_adapter {
namespace {

// No other thread gets this number. A std::thread::id is soon given to another thread, whose calls
// would go into the batch that an earlier one has left open, and never be sent.
uint64_t ThisThread() {
  static std::atomic<uint64_t> last{0};
  thread_local const uint64_t number = ++last;
  return number;
}

}  // namespace

void Batch::admit(const Request& request) {
  if (request.staging->device) {
    const c10::Device its = request.staging->device->device();
    TORCH_CHECK(its == device.value_or(its), kNamePrefix,
                "the tensors of one batch must be on the same device, got ", *device, " and ", its);
    device = its;
  }
  results.insert(results.end(), request.call.results.begin(), request.call.results.end());
}

void Batch::refuse(std::exception_ptr why) {
  if (!refused) refused = std::move(why);
}

void Batch::discard(const char* why) const {
  for (const Work::Launch& call : calls) call.work->discard(NamedStatus(StatusCode::kAborted, why));
}

void Batches::open() {
  if (const auto left = take()) {
    left->discard("the batch that the call was part of has never ended");
  }
  const std::lock_guard lock(mutex_);
  open_.emplace(ThisThread(), std::make_unique<Batch>(++started_));
  ++count_;
}

Batch* Batches::find() {
  if (count_.load() == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(ThisThread());
  return found == open_.end() ? nullptr : found->second.get();
}

std::unique_ptr<Batch> Batches::take() {
  const std::lock_guard lock(mutex_);
  auto node = open_.extract(ThisThread());
  if (node.empty()) return nullptr;
  --count_;
  return std::move(node.mapped());
}

}  // namespace rocecoll::torch_adapter
