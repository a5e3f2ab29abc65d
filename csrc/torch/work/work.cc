// SPDX-License-Identifier: Apache-2.0
#include "torch/work/work.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "base/monotonic_clock.h"
#include "base/named_status.h"
#include "interpreter/process_end.h"
#include "interpreter/signals.h"
#include "torch/interface/c10d_interface.h"
#include "torch/interface/stream_capture.h"
#include "torch/process/completion_pool.h"
#include "torch/process/errors.h"

namespace rocecoll::torch_adapter {
namespace {

using std::chrono::steady_clock;

c10::intrusive_ptr<c10::ivalue::Future> MakeFuture(const Work::Call& call) {
  std::vector<c10::Device> devices;
  if (call.device) devices.push_back(*call.device);
  c10::TypePtr type = c10::ListType::create(c10::TensorType::get());
  if (call.lists > 1) type = c10::ListType::create(std::move(type));
  return c10::make_intrusive<c10::ivalue::Future>(std::move(type), std::move(devices));
}

c10::IValue ResultsOf(const Work::Call& call) {
  if (call.lists == 1) return call.results;
  const auto length = static_cast<ptrdiff_t>(call.results.size() / call.lists);
  std::vector<std::vector<at::Tensor>> lists;
  for (auto first = call.results.begin(); first != call.results.end(); first += length) {
    lists.emplace_back(first, first + length);
  }
  return lists;
}

// Names torch's way to allow more time.
Status WithAdvice(const Status& status) {
  if (status.code() != StatusCode::kTimeout) return status;
  return Status(status.code(),
                status.message() +
                    " (the timeout argument of the call, of init_process_group or of new_group)");
}

// Refusals that concern the element type do not know the operation.
Status WithOperation(const Status& status, const char* title) {
  if (status.message().starts_with(kNamePrefix)) return status;
  return Status(status.code(), std::string(title) + ": " + status.message());
}

}  // namespace

Work::Work(std::shared_ptr<Runtime> runtime, int rank, Call call)
    : c10d::Work(rank, call.type, call.title, call.inputs),
      runtime_(std::move(runtime)),
      call_(std::move(call)),
      future_(MakeFuture(call_)),
      started_(steady_clock::now()) {
  call_.inputs.clear();
  if (call_.hook) call_.hook->expect();
}

void Work::Prepare(GroupId group, Launch launch, std::vector<OperationPtr>& operations) {
  const Ptr& work = launch.work;
  ROCECOLL_CHECK(!launch.specs.empty());
  work->group_ = group;
  work->staging_ = launch.staging;
  work->pending_ = launch.specs.size();
  if (work->call_.record) work->call_.record->start();
  const Ptr batch = work->batch();
  for (OperationSpec& spec : launch.specs) {
    auto operation =
        std::make_shared<Operation>(std::move(spec), std::make_shared<Kept>(work, work->staging_));
    operation->set_on_complete(
        [self = work.get()](const Operation& done) { self->on_operation_done(done.status(), 1); });
    work->operations_.push_back(operation);
    operations.push_back(std::move(operation));
  }
  work->submitted_ = true;
}

Progress::Next Work::next() const {
  if (!call_.asynchronous) return Progress::Next::kWaits;
  return call_.habit && call_.habit->waits_at_once() ? Progress::Next::kLikelyWaits
                                                     : Progress::Next::kGoesOn;
}

Status Work::submit_all(const std::vector<OperationPtr>& operations, size_t& accepted) const {
  Progress& progress = ProgressOf(*runtime_);
  if (operations.size() > 1) return progress.submit_all(group_, operations, accepted);
  if (call_.habit) call_.habit->on_submit(this);
  Status status = progress.submit(group_, operations[0], next());
  accepted = status.ok() ? 1 : 0;
  return status;
}

// Operations that never went out will not call back: counts them as done.
void Work::keep_accepted(size_t accepted, const Status& refused) {
  if (accepted == operations_.size()) return;
  const size_t missing = operations_.size() - accepted;
  if (accepted == 0) {
    submitted_ = false;
    if (call_.record) call_.record->refuse();
  }
  operations_.resize(accepted);
  on_operation_done(refused, missing);
}

void Work::Submit(GroupId group, Launch launch) {
  const Ptr work = launch.work;
  std::vector<OperationPtr> operations;
  Prepare(group, std::move(launch), operations);
  size_t accepted = 0;
  const Status status = work->submit_all(operations, accepted);
  work->keep_accepted(accepted, status);
  if (accepted == 0) Throw(WithOperation(status, work->call_.title));
}

void Work::SubmitBatch(GroupId group, const Ptr& batch, std::shared_ptr<Staging> staging,
                       std::vector<Launch> members) {
  ROCECOLL_CHECK(!members.empty());
  batch->group_ = group;
  batch->staging_ = std::move(staging);
  batch->pending_ = members.size();
  batch->submitted_ = true;
  std::vector<OperationPtr> operations;
  std::vector<Ptr> works;
  for (Launch& member : members) {
    works.push_back(member.work);
    member.work->batch_ = batch.get();
    Prepare(group, std::move(member), operations);
  }
  size_t accepted = 0;
  const Status status = batch->submit_all(operations, accepted);
  batch->operations_.assign(operations.begin(), operations.begin() + accepted);
  size_t left = accepted;
  const char* refused = nullptr;
  for (const Ptr& work : works) {
    const size_t wanted = work->operations_.size();
    if (left < wanted && refused == nullptr) refused = work->call_.title;
    work->keep_accepted(std::min(left, wanted), status);
    left -= std::min(left, wanted);
  }
  if (accepted == 0) Throw(WithOperation(status, refused));
}

void Work::Run(GroupId group, Launch launch, OperationPtr first, SerialQueue& queue,
               std::function<void()> body) {
  const Ptr work = std::move(launch.work);
  work->group_ = group;
  work->operations_.push_back(std::move(first));
  work->staging_ = std::move(launch.staging);
  work->pending_ = 1;
  work->submitted_ = true;
  if (work->call_.record) work->call_.record->start();
  queue.run([work, body = std::move(body)] {
    Status status;
    try {
      body();
    } catch (const std::exception& raised) {
      work->raised_ = std::current_exception();
      status = Status(StatusCode::kInternal, raised.what());
    }
    work->on_operation_done(status, 1);
  });
}

Work::Kept::Kept(Ptr of, std::shared_ptr<Staging> its)
    : work(std::move(of)),
      staging(std::move(its)),
      batch(work->batch()),
      batch_staging(batch ? batch->staging_ : nullptr) {}

Work::Kept::~Kept() {
  if (!work || !work->call_.device) return;
  CompletionPool::instance().run([device = *work->call_.device, work = std::move(work),
                                  staging = std::move(staging), batch = std::move(batch),
                                  batch_staging = std::move(batch_staging)] { SitOn(device); });
}

void Work::discard(const Status& why) {
  staging_ = std::make_shared<Staging>();
  pending_ = 1;
  on_operation_done(why, 1);
}

void Work::on_operation_done(const Status& status, size_t count) {
  if (!status.ok()) {
    if (call_.abort_hooks) call_.abort_hooks->on_failed_call(runtime_, group_);
    std::lock_guard lock(state_mutex_);
    if (failure_.ok()) failure_ = status;
  }
  if (pending_.fetch_sub(count, std::memory_order_acq_rel) != count) return;
  duration_ns_ = std::chrono::nanoseconds(steady_clock::now() - started_).count();
  const auto staging = std::move(staging_);  // an operation's owner is the last to hold it
  if (staging->device && failure_.ok()) {
    store_results(staging);
  } else {
    conclude(staging);
  }
}

void Work::store_results(const std::shared_ptr<Staging>& staging) {
  const auto kept = std::make_shared<Kept>(Ptr::reclaim_copy(this), staging);
  if (!members_stored_.empty()) staging->device->copies().join(std::move(members_stored_));
  staging->device->copies().when_stored([this, kept](const Status& status) {
    on_stored(*kept->staging, status);
    conclude(kept->staging);
  });
}

// On the device's thread.
void Work::on_stored(Staging& staging, const Status& status) {
  Status failed = status;
  if (failed.ok()) {
    try {
      result_stream_ = staging.device->copies().result_stream(staging.has_results_to_copy());
      const c10::StreamGuard on_stream(*result_stream_);
      staging.copy_results();
      results_stored_ = staging.device->copies().mark_stored();
    } catch (const std::exception& raised) {
      failed = Status(StatusCode::kDevice, std::string("storing results: ") + raised.what());
    }
  }
  if (failed.ok()) return;
  results_stored_.reset();
  {
    const std::lock_guard lock(state_mutex_);
    failure_ = WithOperation(failed, call_.title);
  }
  fail_group(failure_);
}

// The other ranks may be through with the operation.
void Work::fail_group(const Status& why) const {
  CompletionPool::instance().run([runtime = runtime_, group = group_, why] {
    if (!runtime->forked()) runtime->progress().abort(group, why);
  });
}

void Work::conclude(const std::shared_ptr<Staging>& staging) {
  std::unique_lock lock(state_mutex_);
  if (future_shared_) {
    lock.unlock();
    const auto kept = std::make_shared<Kept>(Ptr::reclaim_copy(this), staging);
    CompletionPool::instance().run([this, kept] {
      complete(*kept->staging);
      announce();
    });
    return;
  }
  complete(*staging);  // no callbacks can exist, and none are added while the lock is held
  lock.unlock();
  announce();
}

// Tells who waits for the completion other than through this work.
void Work::announce() {
  if (call_.hook) {
    const auto duration = std::chrono::nanoseconds(duration_ns_);
    call_.hook->completed(
        submitted_ ? MakeWorkInfo(opType_, getSequencenumber(), started_, duration) : nullptr);
  }
  if (call_.success_hooks && isSuccess()) {
    call_.success_hooks->run(call_.completion_key, getDuration());
  }
  if (batch_ == nullptr) return;
  if (results_stored_) {
    const std::lock_guard lock(batch_->state_mutex_);
    batch_->members_stored_.push_back(results_stored_);
  }
  batch_->on_operation_done(failure_, 1);
}

void Work::complete(Staging& staging) {
  std::exception_ptr error = raised_;
  // The future, and with it who waits for it, comes after what is on the current stream.
  c10::OptionalStreamGuard on_stream;
  try {
    if (error) {
      // The body has said why.
    } else if (failure_.ok()) {
      if (staging.device) {
        SitOn(staging.device->device());
        on_stream.reset_stream(*result_stream_);
      } else {
        staging.copy_results();
      }
    } else {
      error = MakeException(WithAdvice(failure_));
    }
  } catch (const std::exception& raised) {
    error = std::current_exception();
    failure_ = Status(StatusCode::kInternal, raised.what());  // for the batch
  }
  if (call_.record) {
    call_.record->end(failure_.message(), operations_.empty() ? 0 : operations_.front()->source());
  }
  if (error) {
    future_->setError(error);
  } else {
    future_->markCompleted(ResultsOf(call_));
  }
  finish(error);
}

bool Work::isCompleted() {
  return c10d::Work::isCompleted() && (!results_stored_ || results_stored_->query());
}

bool Work::isSuccess() const {
  std::lock_guard lock(mutex_);
  return completed_ && !exception_;
}

int Work::sourceRank() const {
  if (opType_ == c10d::OpType::RECVANYSOURCE) {
    TORCH_CHECK(isSuccess(), call_.title, ": sourceRank() is known once the message has come");
    return static_cast<int>(operations_.front()->source());
  }
  TORCH_CHECK(call_.source_rank >= 0, "sourceRank() is for receives only, not for ", call_.title);
  return call_.source_rank;
}

std::vector<at::Tensor> Work::result() {
  TORCH_CHECK(c10d::Work::isCompleted(),
              "Work needs to be completed before calling result(). Should call "
              "wait() before result().");
  return call_.results;
}

void Work::give_up(std::chrono::milliseconds timeout, const Operation* pending) const {
  std::string text = std::string(call_.title) + ": timed out waiting " +
                     std::to_string(timeout.count()) + " ms; the operation is still running";
  const std::string waits =
      pending == nullptr ? std::string() : ProgressOf(*runtime_).describe_wait(group_, *pending);
  if (!waits.empty()) text += ": " + waits;
  Throw(Status(StatusCode::kTimeout, text + "; wait() again, or for longer"));
}

bool Work::wait(std::chrono::milliseconds timeout) {
  TORCH_CHECK(submitted_ || isCompleted(), call_.title,
              ": wait() inside the batch that the call is part of; it is sent when the batch ends");
  if (call_.habit) call_.habit->on_wait(this, steady_clock::now() - started_);
  const bool bounded = timeout > kNoTimeout;
  Patience patience(MonotonicNow(), bounded ? Saturated(timeout) : Duration::max());
  for (const OperationPtr& operation : operations_) {
    if (operation->done()) continue;
    const Status status = ProgressOf(*runtime_).wait(operation, patience, RunSignalHandlers);
    if (!operation->done()) {
      if (status.code() != StatusCode::kTimeout) Throw(status);
      give_up(timeout, operation.get());
    }
  }
  if (!isCompleted()) ProgressOf(*runtime_);
  std::unique_lock lock(mutex_);
  while (!completed_) {
    const Instant now = MonotonicNow();
    if (!patience.lasts(now)) {
      lock.unlock();
      give_up(timeout, nullptr);
    }
    cv_.wait_for(lock, std::min(patience.nap(now), Progress::kLookInterval));
    if (completed_) break;
    lock.unlock();
    RunSignalHandlers();
    lock.lock();
  }
  const std::exception_ptr error = exception_;
  lock.unlock();
  if (error) {
    hold_back();
    std::rethrow_exception(error);
  }
  await_on_stream();
  return true;
}

// Callbacks are waited for when the process ends.
void Work::hold_back() {
  if (CompletionPool::serves_here()) return;
  std::unique_lock lock(state_mutex_);
  const bool peer_left = failure_.code() == StatusCode::kPeerLeft;
  lock.unlock();
  ProcessEnd::instance().hold_back(peer_left);
}

void Work::synchronize() {
  if (call_.device && !c10d::Work::isCompleted()) wait(kNoTimeout);
  await_on_stream();
}

void Work::await_on_stream() const {
  if (!results_stored_) return;
  const c10::Stream stream =
      c10::impl::VirtualGuardImpl(call_.device->type()).getStream(*call_.device);
  if (IsCapturing(stream)) {
    TORCH_CHECK(results_stored_->query(), call_.title, ": wait() while the current stream of ",
                *call_.device,
                " is being captured into a graph, which cannot wait for what is outside it: the "
                "results are not there yet. wait() before the capture begins, or after it");
    return;
  }
  results_stored_->block(stream);
}

void Work::abort() {
  ProgressOf(*runtime_).abort(
      group_, Status(StatusCode::kAborted, std::string(call_.title) + ": aborted by the user"));
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  if (!isCompleted()) {
    ProgressOf(*runtime_);
    CompletionPool::instance().require_thread();
  }
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
