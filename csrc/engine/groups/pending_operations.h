// SPDX-License-Identifier: Apache-2.0
// The operations of one group that were submitted and are not complete. Collectives that wait for
// their turn are in a queue, all others in places that are used again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <ranges>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/time.h"
#include "engine/operations/execution.h"
#include "engine/operations/operation.h"
#include "engine/operations/plan.h"
#include "messenger/messenger.h"

namespace rocecoll {

class PendingOperations {
 public:
  // The tag of a receive from any source until its source is known, and of a send that is held back
  // while its user's tag is being retired.
  static constexpr uint64_t kNoTag = UINT64_MAX;

  struct Entry {
    OperationPtr operation;
    Plan plan;
    Fingerprint fingerprint{};
    uint64_t tag_operation = 0;
    uint64_t order = 0;  // of submission
    Instant submitted{};
    Instant deadline = kNever;

    const OperationSpec& spec() const { return operation->spec(); }
    bool has_tag() const { return tag_operation != kNoTag; }
    bool is_collective() const { return !IsPointToPoint(spec().collective); }
    bool is_barrier() const { return spec().collective == Collective::kBarrier; }
  };
  // A place. Its operation, if any, runs or waits for its tag.
  struct Running {
    explicit Running(const ExecutionContext& context) : execution(context) {}
    bool in_use() const { return entry.operation != nullptr; }

    Entry entry;
    Execution execution;
    std::vector<MessageCompletion> leaving;  // sends that have perhaps yet to leave this process
    bool done = false;                       // except that these have yet to leave
  };

  // The context outlives this.
  explicit PendingOperations(const ExecutionContext& context) : context_(context) {}

  void enqueue(Entry entry) {
    earliest_deadline_ = std::min(earliest_deadline_, entry.deadline);
    queue_.push_back(std::move(entry));
  }
  std::deque<Entry>& queue() { return queue_; }
  const std::deque<Entry>& queue() const { return queue_; }
  // Returns the place. Call begun() when the operation starts to run, and ended() after its end.
  uint32_t place(Entry entry) {
    earliest_deadline_ = std::min(earliest_deadline_, entry.deadline);
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(places_.size()));
      places_.push_back(std::make_unique<Running>(context_));
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    places_[index]->entry = std::move(entry);
    return index;
  }
  void begun(uint32_t index) {
    const Entry& entry = at(index).entry;
    if (entry.is_collective()) collectives_.push_back(index);
    if (entry.spec().staged != nullptr) staged_.push_back(index);
  }
  void ended(uint32_t index) {
    Running& running = at(index);
    running.execution.end();
    if (running.entry.is_collective()) std::erase(collectives_, index);
    if (!staged_.empty()) std::erase(staged_, index);
  }
  // Frees the place of an operation that has ended.
  Entry take(uint32_t index) {
    Running& running = at(index);
    running.leaving.clear();
    running.done = false;
    free_.push_back(index);
    return std::exchange(running.entry, {});
  }
  // Ends all operations and takes them out, in the order of submission.
  std::vector<Entry> take_all() {
    std::vector<Entry> entries;
    for (uint32_t index = 0; index < places_.size(); ++index) {
      if (!places_[index]->in_use()) continue;
      places_[index]->execution.end();
      entries.push_back(take(index));
    }
    std::ranges::move(queue_, std::back_inserter(entries));
    queue_.clear();
    collectives_.clear();
    staged_.clear();
    leaving_.clear();
    earliest_deadline_ = kNever;
    std::ranges::sort(entries, {}, &Entry::order);
    return entries;
  }

  // The place must be in use (checked).
  Running& at(uint32_t index) const {
    ROCECOLL_CHECK(index < places_.size() && places_[index]->in_use());
    return *places_[index];
  }
  // The places in use.
  auto running() const {
    return places_ | std::views::filter([](const auto& running) { return running->in_use(); });
  }
  // The running operation with this tag, else the oldest one; null if none runs.
  const Running* find(uint64_t tag_operation) const {
    const Running* oldest = nullptr;
    for (const auto& running : running()) {
      if (running->entry.tag_operation == tag_operation) return running.get();
      if (oldest == nullptr || running->entry.order < oldest->entry.order) oldest = running.get();
    }
    return oldest;
  }
  // The oldest running operation that is late. If only a queued one is, the operation that it waits
  // for: a collective, or, behind a gate, one of the messages that are to open it.
  const Running* find_late(Instant now) const {
    const Running* late = collectives_.empty() ? find(0) : &at(collectives_.front());
    bool found = false;
    for (const auto& running : running()) {
      if (now < running->entry.deadline) continue;
      if (!found || running->entry.order < late->entry.order) late = running.get();
      found = true;
    }
    return late;
  }
  // Places: of running collectives in the order of their admission, of running operations with
  // staged memory in the order of their start, and of operations that are `done`.
  const std::vector<uint32_t>& collectives() const { return collectives_; }
  const std::vector<uint32_t>& staged() const { return staged_; }
  std::vector<uint32_t>& leaving() { return leaving_; }
  const std::vector<uint32_t>& leaving() const { return leaving_; }

  // No pending operation has an earlier deadline.
  Instant earliest_deadline() const { return earliest_deadline_; }
  // The exact one: operations that completed meanwhile no longer count.
  Instant find_earliest_deadline() {
    earliest_deadline_ = kNever;
    for_each([this](const Entry& entry) {
      earliest_deadline_ = std::min(earliest_deadline_, entry.deadline);
    });
    return earliest_deadline_;
  }
  // This process did not run for `length`, which counts towards no deadline.
  void on_pause(Duration length) {
    for_each([length](Entry& entry) {
      entry.deadline = After(entry.deadline, length);
      entry.submitted += length;
    });
    earliest_deadline_ = After(earliest_deadline_, length);
  }

 private:
  template <typename Visit>
  void for_each(Visit&& visit) {
    for (const auto& running : running()) visit(running->entry);
    for (Entry& entry : queue_) visit(entry);
  }

  const ExecutionContext& context_;
  std::deque<Entry> queue_;
  std::vector<std::unique_ptr<Running>> places_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> collectives_;
  std::vector<uint32_t> staged_;
  std::vector<uint32_t> leaving_;
  Instant earliest_deadline_ = kNever;
};

}  // namespace rocecoll
