// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/rdma.h"
#include "transport/verbs/completion_queue.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/queue_pair_address.h"
#include "transport/verbs/slow_calls.h"
#include "transport/verbs/verbs_port.h"

namespace rocecoll {

// Room in a completion queue, counted in queue pairs. Completions of a destroyed queue pair may
// remain in the queue until the queue has been seen empty.
struct CompletionReserve {
  uint32_t living = 0;
  uint32_t destroyed = 0;
};

class VerbsQueuePair final : public RdmaQueuePair {
 public:
  struct Queues {
    SlowCalls* slow_calls = nullptr;
    std::vector<WorkCompletion>* connects = nullptr;  // receives the outcomes of connect()
    CompletionQueue* completions = nullptr;
    ibv_srq* receives = nullptr;  // null: the queue pair has a queue of its own, for `max_receives`
    uint32_t max_sends = 0;
    uint32_t max_receives = 0;
    uint32_t max_inline_bytes = 0;
  };
  // Everything passed by reference outlives the queue pair, which counts itself in `reserve`.
  static Result<std::unique_ptr<VerbsQueuePair>> Create(VerbsPort& port, const Queues& queues,
                                                        CompletionReserve& reserve);
  ~VerbsQueuePair() override;
  VerbsQueuePair(const VerbsQueuePair&) = delete;
  VerbsQueuePair& operator=(const VerbsQueuePair&) = delete;

  uint32_t number() const override { return queue_pair_->qp_num; }
  Address address() const override { return ToAddress(own_); }
  Status connect(const Address& peer) override;
  size_t post(std::span<const SendRequest> batch) override;
  size_t post_receives(std::span<const ReceiveRequest> batch) override;
  void fail() override;

  // What the device granted, which is at least what was asked for.
  uint32_t max_inline_bytes() const { return max_inline_bytes_; }
  uint32_t max_sends() const { return max_sends_; }

 private:
  // What the other thread needs to connect a queue pair; also owns the queue pair if it is
  // destroyed meanwhile.
  struct Connecting {
    void make_calls();

    ibv_qp* queue_pair = nullptr;
    ConnectionExtensions extensions;  // those that the peer has too
    ibv_qp_attr to_receive{};
    ibv_qp_attr to_send{};
    std::atomic<bool> abandoned = false;
    int failed = 0;                   // the error of the first call that failed
    std::string way;                  // for messages: from where to where
    std::string doing;                // for messages: what the last call was for
    VerbsQueuePair* owner = nullptr;  // null once it is destroyed
    QueuePairHandle orphan;
  };

  VerbsQueuePair(VerbsPort& port, const Queues& queues, CompletionReserve& reserve,
                 QueuePairHandle queue_pair, const ibv_qp_cap& granted);
  static void Destroy(QueuePairHandle queue_pair, CompletionQueue& completions,
                      CompletionReserve& reserve);
  Status initialize();
  ibv_qp_attr ready_to_receive(const QueuePairAddress& peer) const;
  ibv_qp_attr ready_to_send() const;
  // Returns true if the calls of connect() are over, or had not begun and now will not be made.
  bool stop_connecting();
  void on_connect_over();
  void enter_error();
  size_t post_list(std::span<const SendRequest> list);

  VerbsPort& port_;
  SlowCalls& slow_calls_;
  std::vector<WorkCompletion>& connects_;
  CompletionQueue& completions_;
  CompletionReserve& reserve_;
  QueuePairHandle queue_pair_;
  const uint32_t max_inline_bytes_;
  const uint32_t max_sends_;
  QueuePairAddress own_;
  std::shared_ptr<Connecting> connecting_;  // set while connecting
  uint64_t slow_call_ = 0;                  // likewise
  std::string why_not_connected_;
  bool connected_ = false;
  bool failed_ = false;
};

}  // namespace rocecoll
