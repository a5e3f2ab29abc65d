// SPDX-License-Identifier: Apache-2.0
// What this process's groups were asked to do: a bounded ring of calls, kept while somebody wants
// it (rocecoll/tracing.py). Calls that C++ starts, such as DDP's, are in it like any other.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/rank.h"

namespace rocecoll::torch_adapter {

struct RecordedTensor {
  c10::SmallVector<int64_t, 4> sizes;
  at::ScalarType type = at::ScalarType::Byte;
  c10::Device device = at::kCPU;
};

// One call. Everything but the last three fields is set before the record is added and stays.
struct CallRecord {
  uint64_t id = 0;              // counts the calls recorded in this process
  const char* title = nullptr;  // "rocecoll:<op>"
  std::string group;            // torch's name of it
  std::string description;      // what new_group() was told, "default_pg" for the world
  std::shared_ptr<const std::vector<Rank>> global_ranks;  // by group rank
  int rank = 0;                                           // of this process in the group
  bool point_to_point = false;
  uint64_t sequence = 0;  // within the group; counted separately for messages
  uint64_t batch = 0;     // calls of one batch share it; 0: none
  std::vector<RecordedTensor> inputs;
  std::vector<RecordedTensor> outputs;
  uint64_t bytes = 0;       // of the larger of the two sides
  std::optional<int> root;  // group rank; of a message the peer(), here -1 for any
  std::optional<uint32_t> tag;
  std::string_view reduce_op;           // empty: does not reduce
  std::vector<uint64_t> input_splits;   // elements for each rank, where they may differ
  std::vector<uint64_t> output_splits;  // elements from each rank
  std::string algorithm;                // empty: chosen by size
  bool asynchronous = true;
  int64_t timeout_ms = 0;
  int64_t thread_id = 0;
  std::string thread_name;
  std::shared_ptr<torch::CapturedTraceback> initiator;  // Python frames, symbolized when asked for
  int64_t enqueued_ns = 0;                              // of the steady clock, as the others

  // The operation went to the engine.
  void start();
  // It did not go there after all.
  void refuse();
  // It is over, with `error` unless that is empty; receives have got theirs from `source`. The
  // first call counts.
  void end(const std::string& error, Rank source = 0);
  std::string error() const;
  // Group rank; of a receive from any rank it is known once the message is there.
  std::optional<int> peer() const;
  int64_t started_ns() const { return started_ns_.load(std::memory_order_relaxed); }  // 0: not yet
  int64_t ended_ns() const { return ended_ns_.load(std::memory_order_acquire); }      // 0: not yet

 private:
  std::atomic<int64_t> started_ns_{0};
  mutable std::mutex error_mutex_;
  std::string error_;
  Rank source_ = 0;
  std::atomic<int64_t> ended_ns_{0};
};
using CallRecordPtr = std::shared_ptr<CallRecord>;

// Thread-safe. Never destroyed: records hold Python frames, and the interpreter may be gone by
// then.
class Recorder {
 public:
  struct Excerpt {
    std::vector<CallRecordPtr> records;  // in the order of the calls
    uint64_t dropped = 0;                // older ones that fell out of the ring
  };

  static Recorder& instance();
  static bool enabled() { return enabled_.load(std::memory_order_relaxed); }

  // Recording is on until every start() has had its stop(). The ring holds the largest capacity
  // asked for. Returns the id that the next call gets.
  uint64_t start(size_t capacity);
  void stop();
  void add(const CallRecordPtr& record);
  // The calls from id `first` on, or from the beginning of the present recording.
  Excerpt since(uint64_t first) const;

 private:
  static inline std::atomic<bool> enabled_{false};
  mutable std::mutex mutex_;
  std::deque<CallRecordPtr> ring_;
  size_t capacity_ = 0;
  size_t users_ = 0;
  uint64_t next_id_ = 0;
  uint64_t begin_id_ = 0;  // of the present recording
};

// Fills in what the calling thread knows: who calls, and when.
void RecordCaller(CallRecord& record);
// What to add to a record's times to get the time of day.
int64_t ClockOffsetNs();

}  // namespace rocecoll::torch_adapter
