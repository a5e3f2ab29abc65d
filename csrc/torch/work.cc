// SPDX-License-Identifier: Apache-2.0
#include "torch/work.h"

#include <utility>

#include "torch/completion_pool.h"
#include "torch/errors.h"

namespace rocecoll::torch_adapter {
namespace {

using std::chrono::steady_clock;

c10::intrusive_ptr<c10::ivalue::Future> MakeFuture() {
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
}

// Names torch's way to allow more time.
Status WithAdvice(const Status& status) {
  if (status.code() != StatusCode::kTimeout) return status;
  return Status(status.code(),
                status.message() + " (the timeout argument of init_process_group or new_group)");
}

// Refusals that concern the element type do not know the operation.
Status WithOperation(const Status& status, const char* title) {
  if (status.message().starts_with("rocecoll")) return status;
  return Status(status.code(), std::string(title) + ": " + status.message());
}

}  // namespace

Work::Work(std::shared_ptr<RuntimeHandle> runtime, int rank, Call call)
    : c10d::Work(rank, call.type, call.title, call.inputs),
      runtime_(std::move(runtime)),
      call_(std::move(call)),
      future_(MakeFuture()),
      started_(steady_clock::now()) {
  call_.inputs.clear();
}

void Work::Submit(const c10::intrusive_ptr<Work>& work, GroupId group,
                  std::vector<OperationSpec> specs, const std::shared_ptr<Staging>& staging) {
  ROCECOLL_CHECK(!specs.empty());
  work->group_ = group;
  work->staging_ = staging;
  work->pending_ = specs.size();
  for (OperationSpec& spec : specs) {
    auto operation = std::make_shared<Operation>(std::move(spec), staging);
    // The reference is dropped with the operation's callback, once it has run.
    operation->set_on_complete([work](const Operation& done) mutable {
      const RuntimeHandle::CallbackScope scope;
      auto self = std::move(work);
      self->on_operation_done(done.status(), 1);
    });
    work->operations_.push_back(std::move(operation));
  }
  for (size_t i = 0; i < work->operations_.size(); ++i) {
    const bool asynchronous = work->call_.asynchronous;
    const Status status =
        work->runtime_->progress().submit(group, work->operations_[i], asynchronous);
    if (status.ok()) continue;
    // Operations which never went out will not call back: release what their callbacks hold.
    const size_t refused = work->operations_.size() - i;
    for (size_t k = i; k < work->operations_.size(); ++k) {
      work->operations_[k]->set_on_complete(nullptr);
    }
    if (i == 0) work->operations_.clear();
    work->on_operation_done(status, refused);
    if (i == 0) Throw(WithOperation(status, work->call_.title));
    return;
  }
}

void Work::on_operation_done(const Status& status, size_t count) {
  if (!status.ok()) {
    std::lock_guard lock(state_mutex_);
    if (failure_.ok()) failure_ = status;
  }
  if (pending_.fetch_sub(count, std::memory_order_acq_rel) != count) return;
  duration_ns_ = std::chrono::nanoseconds(steady_clock::now() - started_).count();
  // Dropped after the lock: freeing a tensor may need Python's lock, which a thread in getFuture()
  // may hold.
  auto staging = std::move(staging_);
  std::unique_lock lock(state_mutex_);
  if (future_shared_) {
    lock.unlock();
    CompletionPool::instance().run([self = c10::intrusive_ptr<Work>::reclaim_copy(this), staging] {
      self->complete(*staging);
    });
  } else {
    complete(*staging);  // no callbacks can exist, and none are added while the lock is held
  }
}

void Work::complete(Staging& staging) {
  std::exception_ptr error;
  try {
    if (failure_.ok()) {
      staging.copy_results();
    } else {
      error = MakeException(WithAdvice(failure_));
    }
  } catch (...) {
    error = std::current_exception();
  }
  if (error) {
    future_->setError(error);
  } else {
    future_->markCompleted(c10::IValue(call_.results));
  }
  finish(error);
}

bool Work::isSuccess() const {
  std::lock_guard lock(mutex_);
  return completed_ && !exception_;
}

int Work::sourceRank() const {
  TORCH_CHECK(call_.source_rank >= 0, "sourceRank() is for receives only, not for ", call_.title);
  return call_.source_rank;
}

std::vector<at::Tensor> Work::result() {
  TORCH_CHECK(isCompleted(),
              "Work needs to be completed before calling result(). Should call "
              "wait() before result().");
  return call_.results;
}

bool Work::wait(std::chrono::milliseconds timeout) {
  const bool bounded = timeout > kNoTimeout;
  const auto deadline = steady_clock::now() + timeout;
  for (const OperationPtr& operation : operations_) {
    if (operation->done()) continue;
    const Duration left = bounded ? Duration(deadline - steady_clock::now()) : Duration::max();
    const Status status = runtime_->progress().wait(operation, std::max(left, Duration(1)));
    if (!operation->done()) {
      if (status.code() != StatusCode::kTimeout) Throw(status);
      Throw(Status(StatusCode::kTimeout, std::string(call_.title) + ": timed out waiting " +
                                             std::to_string(timeout.count()) +
                                             " ms; the operation is still running"));
    }
  }
  std::unique_lock lock(mutex_);
  cv_.wait(lock, [this] { return completed_; });
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

void Work::abort() {
  runtime_->progress().abort(
      group_, Status(StatusCode::kAborted, std::string(call_.title) + ": aborted by the user"));
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  std::lock_guard lock(state_mutex_);
  future_shared_ = true;
  return future_;
}

float Work::getDuration() const {
  const int64_t duration_ns = duration_ns_;
  TORCH_CHECK(duration_ns >= 0, "getDuration() needs the work to be completed");
  return static_cast<float>(duration_ns) / 1e6f;
}

uint64_t Work::getSequencenumber() const {
  return operations_.empty() ? 0 : operations_.front()->sequence();
}

}  // namespace rocecoll::torch_adapter
