// SPDX-License-Identifier: Apache-2.0
#include "torch/tensors/device_copies.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "base/check.h"
#include "torch/process/completion_pool.h"
#include "torch/process/plain_dispatch.h"

namespace rocecoll::torch_adapter {
namespace {

constexpr const char* kFetching = "copying tensors to the host";
constexpr const char* kStoring = "copying results to the device";
constexpr const char* kReleasing = "releasing memory";

c10::Stream CurrentStream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

std::shared_ptr<DeviceEvent> MarkOf(const c10::Stream& stream) {
  auto event = std::make_shared<DeviceEvent>(stream.device());
  event->record(stream);
  return event;
}

}  // namespace

DeviceCopies::DeviceCopies(c10::Device where, std::shared_ptr<CopyStreams> streams,
                           std::vector<Piece> pieces)
    : device(where),
      thread_(DeviceThread::of(where)),
      streams_(std::move(streams)),
      before_{MarkOf(CurrentStream(where))},
      pieces_(std::move(pieces)) {
  std::ranges::sort(pieces_, {}, &Piece::host);
}

Status DeviceCopies::status() const {
  if (!failed_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(mutex_);
  return failure_;
}

// What torch throws, as the engine takes it: nothing is thrown across threads.
bool DeviceCopies::guard(const char* what, const std::function<void()>& step) {
  std::string why;
  try {
    step();
    return true;
  } catch (const c10::Error& error) {
    why = error.what_without_backtrace();
  } catch (const std::exception& error) {
    why = error.what();
  }
  const std::lock_guard lock(mutex_);
  if (!failed_) {
    failure_ = Status(StatusCode::kDevice, std::string("rocecoll: ") + what + ": " + why);
    failed_.store(true, std::memory_order_release);
  }
  return false;
}

void DeviceCopies::run(const char* what, std::function<void()> step) {
  thread_.post([self = shared_from_this(), what, step = std::move(step)] {
    if (!self->failed_) self->guard(what, step);
    self->attend();
  });
}

void DeviceCopies::fetch(const std::shared_ptr<Reads>& reads, std::span<const HostRange> ranges) {
  run(kFetching, [this, reads, wanted = std::vector(ranges.begin(), ranges.end())] {
    if (reads->lanes_.empty()) reads_.push_back(reads);
    reads->lanes_.emplace_back().ranges = wanted;
  });
}

void DeviceCopies::store(std::span<const HostRange> ranges) {
  run(kStoring,
      [this, wanted = std::vector(ranges.begin(), ranges.end())] { stores_.push_back(wanted); });
}

void DeviceCopies::join(Marks marks) {
  run(kStoring, [this, marks = std::move(marks)] {
    joins_ = true;
    before_ = marks;
  });
}

void DeviceCopies::when_stored(std::function<void(const Status&)> then) {
  thread_.post([self = shared_from_this(), then = std::move(then)] {
    self->waiting_.push_back(then);
    self->attend();
  });
}

c10::Stream DeviceCopies::result_stream(bool stores_more) {
  // A call that has stored nothing before has read something, so that its stream has come to it.
  if (stores_more && !store_stream_) store_stream_ = streams_->out;
  return store_stream_.value_or(streams_->idle);
}

void DeviceCopies::keep(const at::Tensor& tensor) {
  kept_.push_back(tensor);
  stores_more_ = true;
}

std::shared_ptr<DeviceEvent> DeviceCopies::mark_stored() {
  if (store_stream_ && (stores_more_ || joins_)) stored_ = MarkOf(*store_stream_);
  stores_more_ = false;
  return stored_;
}

void DeviceCopies::end() {
  thread_.post([self = shared_from_this()] {
    self->ended_ = true;
    if (!self->guard(kReleasing, [&] { self->mark_last(); })) self->lose();
    self->reads_.clear();
    self->stores_.clear();
    self->attend();
  });
}

void DeviceCopies::attend() {
  if (watched_ || advance()) return;
  watched_ = true;
  thread_.watch([self = shared_from_this()] {
    self->watched_ = !self->advance();
    return !self->watched_;
  });
}

bool DeviceCopies::advance() {
  if (!failed_ && !reads_.empty()) guard(kFetching, [this] { look_after_reads(); });
  if (!failed_) guard(kStoring, [this] { look_after_stores(); });
  tell_those_waiting();
  if (!ended_) return failed_ || (reads_.empty() && stores_.empty() && waiting_.empty());
  const bool known = guard(kReleasing, [this] {
    std::erase_if(last_, [](const auto& event) { return event->query(); });
  });
  if (!known) {
    lose();
    last_.clear();
  }
  if (!last_.empty()) return false;
  if (store_stream_) streams_->give_back(*store_stream_);
  if (!pieces_.empty() || !kept_.empty()) release();
  return true;
}

void DeviceCopies::look_after_reads() {
  if (!ready()) return;
  for (const auto& reads : reads_) queue_copies(*reads);
  for (const auto& reads : reads_) look_at_arrivals(*reads);
  std::erase_if(reads_, [](const auto& reads) { return reads->lanes_.empty(); });
}

// Whether the caller's stream has come to the point of the call.
bool DeviceCopies::ready() {
  std::erase_if(before_, [](const auto& event) { return event->query(); });
  return before_.empty();
}

// Results wait for the caller's stream only where this rank reads nothing: else it has come to the
// call, as the inputs have.
bool DeviceCopies::choose_store_stream() {
  if (store_stream_) return true;
  if (ready()) {
    store_stream_ = joins_ ? streams_->idle : streams_->out;
    return true;
  }
  store_stream_ = streams_->take_late();
  if (!store_stream_) return false;
  for (const auto& event : before_) event->block(*store_stream_);
  return true;
}

void DeviceCopies::look_after_stores() {
  if (stores_.empty() && !(joins_ && !waiting_.empty())) return;
  if (!choose_store_stream() || stores_.empty()) return;
  for (; !stores_.empty(); stores_.pop_front()) copy_out(stores_.front());
  stored_ = MarkOf(*store_stream_);
}

void DeviceCopies::tell_those_waiting() {
  if (!failed_ && (!stores_.empty() || (joins_ && !store_stream_))) return;
  for (const auto& then : std::exchange(waiting_, {})) then(status());
}

void DeviceCopies::queue_copies(Reads& reads) {
  for (; reads.queued_ < reads.lanes_.size(); ++reads.queued_) {
    Reads::Lane& lane = reads.lanes_[reads.queued_];
    copy_in(lane.ranges);
    lane.event.emplace(device);
    lane.event->record(streams_->in);
  }
}

void DeviceCopies::look_at_arrivals(Reads& reads) {
  while (reads.queued_ > 0 && reads.lanes_.front().event->query()) {
    reads.lanes_.pop_front();
    --reads.queued_;
    reads.arrived_.fetch_add(1, std::memory_order_release);
  }
}

void DeviceCopies::copy_in(std::span<const HostRange> ranges) {
  const c10::StreamGuard guard(streams_->in);
  for_each_piece(ranges, [](at::Tensor image, const at::Tensor& tensor) {
    image.copy_(tensor, /*non_blocking=*/true);
  });
}

void DeviceCopies::copy_out(std::span<const HostRange> ranges) {
  const c10::StreamGuard guard(*store_stream_);
  for_each_piece(ranges, [](const at::Tensor& image, at::Tensor tensor) {
    tensor.copy_(image, /*non_blocking=*/true);
  });
}

template <typename Copy>
void DeviceCopies::for_each_piece(std::span<const HostRange> ranges, const Copy& copy) {
  const PlainDispatch plain;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (HostRange range : ranges) {
    auto piece = std::ranges::upper_bound(pieces_, range.data, {}, &Piece::host);
    ROCECOLL_CHECK(piece != pieces_.begin());
    for (--piece; range.bytes > 0; ++piece) {  // a range may run over several tensors of a list
      ROCECOLL_CHECK(piece != pieces_.end() && range.data >= piece->host);
      const auto offset = static_cast<int64_t>(range.data - piece->host);
      const int64_t length =
          std::min(static_cast<int64_t>(range.bytes), piece->tensor.numel() - offset);
      ROCECOLL_CHECK(length > 0);
      copy(piece->image.narrow(0, offset, length), piece->tensor.narrow(0, offset, length));
      range.data += length;
      range.bytes -= static_cast<size_t>(length);
    }
  }
}

// Copies that nobody will ask about are waited for, too: of some memory only our reference says
// that it is in use, as of what other libraries or processes have lent (DLPack, IPC).
void DeviceCopies::mark_last() {
  const bool fetching = std::ranges::any_of(reads_, [](const auto& r) { return r->queued_ > 0; });
  if (fetching || failed_) last_.push_back(MarkOf(streams_->in));
  if (stored_) last_.push_back(stored_);
  if (store_stream_ && (stores_more_ || failed_)) last_.push_back(MarkOf(*store_stream_));
}

// Tensors are only dropped on threads that may wait for Python's lock.
void DeviceCopies::release() {
  CompletionPool::instance().run(
      [where = device, pieces = std::move(pieces_), kept = std::move(kept_)]() mutable {
        SitOn(where);
        pieces.clear();
        kept.clear();
      });
}

// Memory that may still be copied to is rather lost than given out again.
void DeviceCopies::lose() {
  new std::vector(std::move(pieces_));
  new std::vector(std::move(kept_));
}

}  // namespace rocecoll::torch_adapter
