// SPDX-License-Identifier: Apache-2.0
// One queue pair at a time, and the requests in its send queue. They are numbered from 1, posted in
// batches, and done in order: a completion of one tells that all before it are done, too, so that
// only some ask for one (are *signaled*).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transport/path_stats.h"
#include "transport/rdma.h"
#include "transport/transport.h"

namespace rocecoll {

class SendQueue {
 public:
  // Kept free for a message of credits and for the last request of all.
  static constexpr uint32_t kSpareRequests = 2;

  // Counts what it sends, in the device's `stats` and in the path's `traffic`.
  SendQueue(RdmaDevice& device, TransportStats& stats, Traffic& traffic)
      : device_(device), stats_(stats), traffic_(traffic) {}
  ~SendQueue() { destroy(); }
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  // -- the queue pair
  // Makes one, of which at most `most` requests are outstanding; there must be none.
  Status prepare(uint32_t most);
  bool prepared() const { return queue_pair_ != nullptr; }
  RdmaQueuePair& queue_pair() const { return *queue_pair_; }
  void on_connected() { connected_ = !failed_; }
  bool connected() const { return connected_; }
  // Ends its life. drained() once no request of it is outstanding, or the device does not say when;
  // destroy() at any time takes the device's hands off all memory.
  void fail();
  bool failed() const { return failed_; }
  bool drained() const { return !prepared() || drained_; }
  void destroy();

  // -- requests
  // How many more can be added.
  uint32_t room() const;
  // The number of the newest one.
  uint64_t newest() const { return newest_; }
  // Adds one to the batch. The payload is lent until it is done.
  SendRequest& add(SendRequest::Kind kind, std::span<const std::byte> payload, uint32_t local_key);
  // Has the newest request, which has not been posted, tell when it is done.
  void signal_newest();
  // Some request was added after the newest signaled one.
  bool any_unsignaled() const { return unsignaled_ > 0; }
  size_t batched() const { return batch_.size(); }
  void drop_batch() { batch_.clear(); }
  // Not ok if the device does not take the whole batch.
  Status post();

  // -- completions
  // True if requests are done that were not before: all up to done().
  bool on_sent(const WorkCompletion& completion);
  uint64_t done() const { return done_; }

 private:
  // A queue pair's requests are acknowledged in trains of about this many.
  static constexpr uint32_t kSignalEvery = 16;

  RdmaDevice& device_;
  TransportStats& stats_;
  Traffic& traffic_;
  std::unique_ptr<RdmaQueuePair> queue_pair_;
  std::vector<SendRequest> batch_;
  uint32_t max_requests_ = 0;
  uint64_t newest_ = 0;
  uint64_t done_ = 0;
  uint32_t unsignaled_ = 0;  // since the newest signaled one
  uint64_t last_ = 0;        // posted by fail()
  bool connected_ = false;
  bool failed_ = false;
  bool drained_ = false;
};

}  // namespace rocecoll
