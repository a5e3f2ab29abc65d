// SPDX-License-Identifier: Apache-2.0
#include "torch/tensors/device_copies.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "base/named_status.h"
#include "torch/process/completion_pool.h"

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

// Memory of the heap is copied in pieces of this size, between which other calls get their turn:
// the thread that copies waits for each piece.
constexpr size_t kHeapPieceBytes = size_t{4} << 20;

std::vector<std::vector<StagedRange>> PiecesFor(const LaneMemory& memory,
                                                std::span<const StagedRange> ranges) {
  if (memory.pinned()) return {{ranges.begin(), ranges.end()}};
  std::vector<std::vector<StagedRange>> pieces;
  for (const StagedRange& range : ranges) {
    for (size_t done = 0; done < range.bytes; done += kHeapPieceBytes) {
      const size_t bytes = std::min(kHeapPieceBytes, range.bytes - done);
      pieces.push_back({{range.place + done, range.host + done, bytes}});
    }
  }
  return pieces;
}

}  // namespace

DeviceCopies::DeviceCopies(c10::Device where, std::shared_ptr<CopyStreams> streams,
                           PlacedTensors tensors)
    : device(where),
      thread_(DeviceThread::of(where)),
      streams_(std::move(streams)),
      before_{MarkOf(CurrentStream(where))},
      tensors_(std::move(tensors)) {}

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
    failure_ = NamedStatus(StatusCode::kDevice, std::string(what) + ": " + why);
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

void DeviceCopies::fetch(const std::shared_ptr<Reads>& reads, std::span<const StagedRange> ranges,
                         Memory memory) {
  run(kFetching, [this, reads, wanted = PiecesFor(*memory, ranges), memory = std::move(memory)] {
    if (reads->lanes_.empty()) reads_.push_back(reads);
    for (size_t i = 0; i < wanted.size(); ++i) {
      Reads::Lane& lane = reads->lanes_.emplace_back();
      lane.ranges = wanted[i];
      lane.memory = memory;
      lane.last = i + 1 == wanted.size();
    }
  });
}

void DeviceCopies::store(std::span<const StagedRange> ranges, Memory memory) {
  run(kStoring, [this, wanted = PiecesFor(*memory, ranges), memory = std::move(memory)] {
    for (const auto& piece : wanted) stores_.push_back({piece, memory});
  });
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
    const bool marked = self->guard(kReleasing, [&] { self->mark_last(); });
    self->drop_wishes();
    if (!marked) self->lose();
    self->attend();
  });
}

// Some of their copies may be queued.
void DeviceCopies::drop_wishes() {
  for (const auto& reads : reads_) {
    for (Reads::Lane& lane : reads->lanes_) kept_memory_.push_back(std::move(lane.memory));
  }
  for (Store& store : stores_) kept_memory_.push_back(std::move(store.memory));
  reads_.clear();
  stores_.clear();
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
  if (!failed_) guard(kStoring, [this] { look_after_leaving(); });
  if (!ended_) {
    return failed_ || (reads_.empty() && stores_.empty() && waiting_.empty() && leaving_.empty());
  }
  const bool known = guard(kReleasing, [this] {
    std::erase_if(last_, [](const auto& event) { return event->query(); });
  });
  if (!known) {
    lose();
    last_.clear();
  }
  if (!last_.empty()) return false;
  leaving_.clear();
  kept_memory_.clear();
  if (store_stream_) streams_->give_back(*store_stream_);
  if (!tensors_.empty() || !kept_.empty()) release();
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
  if (before_.empty()) has_come_.store(true, std::memory_order_release);
  return before_.empty();
}

// Results wait for the caller's stream only where this rank reads nothing: otherwise the stream has
// come to the call, as the inputs have arrived.
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

// A copy from memory of the heap makes this thread wait for the stream, so the caller's stream has
// to come to the call first.
bool DeviceCopies::may_store(const Store& store) { return store.memory->pinned() || ready(); }

void DeviceCopies::look_after_stores() {
  if (stores_.empty() && !(joins_ && !waiting_.empty())) return;
  if (!choose_store_stream() || stores_.empty()) return;
  if (!may_store(stores_.front())) return;
  Leaving& leaving = leaving_.emplace_back();
  bool goes_on = true;
  while (goes_on && !stores_.empty() && may_store(stores_.front())) {
    const c10::StreamGuard guard(*store_stream_);
    tensors_.copy(PlacedTensors::Way::kOut, stores_.front().ranges, *stores_.front().memory);
    goes_on = stores_.front().memory->pinned();
    leaving.memory.push_back(std::move(stores_.front().memory));
    stores_.pop_front();
  }
  stored_ = leaving.event = mark(*store_stream_);
}

void DeviceCopies::look_after_leaving() {
  while (!leaving_.empty() && leaving_.front().event->query()) leaving_.pop_front();
}

void DeviceCopies::tell_those_waiting() {
  if (!failed_ && (!stores_.empty() || (joins_ && !store_stream_))) return;
  for (const auto& then : std::exchange(waiting_, {})) then(status());
}

void DeviceCopies::queue_copies(Reads& reads) {
  for (; reads.queued_ < reads.lanes_.size(); ++reads.queued_) {
    Reads::Lane& lane = reads.lanes_[reads.queued_];
    const c10::StreamGuard guard(streams_->in);
    tensors_.copy(PlacedTensors::Way::kIn, lane.ranges, *lane.memory);
    lane.event = mark(streams_->in);
    if (lane.memory->pinned()) continue;
    ++reads.queued_;
    return;
  }
}

void DeviceCopies::look_at_arrivals(Reads& reads) {
  while (reads.queued_ > 0 && reads.lanes_.front().event->query()) {
    const bool whole = reads.lanes_.front().last;
    reads.lanes_.pop_front();
    --reads.queued_;
    if (whole) reads.arrived_.fetch_add(1, std::memory_order_release);
  }
}

// The point behind everything queued there so far. Lanes reuse the events of earlier ones.
std::shared_ptr<DeviceEvent> DeviceCopies::mark(const c10::Stream& stream) {
  auto free =
      std::ranges::find_if(events_, [](const auto& event) { return event.use_count() == 1; });
  if (free == events_.end()) {
    free = events_.insert(free, std::make_shared<DeviceEvent>(device));
  }
  (*free)->record(stream);
  return *free;
}

// Waits also for copies whose end nobody will query: some memory, such as what other libraries or
// processes have lent (DLPack, IPC), is known to be in use only by our reference to it.
void DeviceCopies::mark_last() {
  const bool fetching = std::ranges::any_of(reads_, [](const auto& r) { return r->queued_ > 0; });
  if (fetching || failed_) last_.push_back(MarkOf(streams_->in));
  if (stored_) last_.push_back(stored_);
  if (store_stream_ && (stores_more_ || failed_)) last_.push_back(MarkOf(*store_stream_));
}

// Tensors are only dropped on threads that may wait for Python's lock.
void DeviceCopies::release() {
  CompletionPool::instance().run(
      [where = device, tensors = std::move(tensors_), kept = std::move(kept_)]() mutable {
        SitOn(where);
        tensors = {};
        kept.clear();
      });
}

// It is better to lose memory that may still be copied to than to give it out again.
void DeviceCopies::lose() {
  new PlacedTensors(std::move(tensors_));
  new std::vector(std::move(kept_));
  new std::vector(std::move(kept_memory_));
  new std::deque(std::move(leaving_));
}

}  // namespace rocecoll::torch_adapter
