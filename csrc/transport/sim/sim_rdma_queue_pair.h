// SPDX-License-Identifier: Apache-2.0
// One end of a simulated reliable connection. Requests pass four points, in order: posted, arrived
// (the last byte has crossed the wire), executed at the peer, answered. A request whose path or
// peer is gone stays where it is until that changes or the retry timeout passes, because hardware
// retransmits. Payloads are read when they are executed, so that memory that changes while it is
// lent shows up as wrong results; what had left before the queue pair failed still arrives. The
// first write that reaches a failed queue pair lands, and nobody is told, like a write that
// Soft-RoCE is processing on another processor at that moment: only destroying a queue pair
// guarantees that it no longer touches memory.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "transport/rdma.h"
#include "transport/sim/sim_rdma.h"
#include "transport/sim/sim_rdma_device.h"

namespace rocecoll {

class SimRdmaQueuePair final : public RdmaQueuePair {
 public:
  SimRdmaQueuePair(SimRdmaFabric& fabric, SimRdmaDevice& device, uint32_t number);
  ~SimRdmaQueuePair() override;
  SimRdmaQueuePair(const SimRdmaQueuePair&) = delete;
  SimRdmaQueuePair& operator=(const SimRdmaQueuePair&) = delete;

  uint32_t number() const override { return number_; }
  Address address() const override;
  Status connect(const Address& peer) override;
  size_t post(std::span<const SendRequest> batch) override;
  size_t post_receives(std::span<const ReceiveRequest> batch) override;
  void fail() override { enter_error(CompletionStatus::kFlushed); }

 private:
  friend class SimRdmaFabric;
  friend class SimRdmaDevice;
  using End = SimRdmaFabric::End;

  struct Posted {
    SendRequest request;
    std::vector<std::byte> inlined;  // the payload of an inlined request
    SimRdmaFabric::Flight flight;
    CompletionStatus outcome = CompletionStatus::kSuccess;  // set once executed
  };
  enum class Verdict : uint8_t { kDone, kNoReceiveRequest, kAccessDenied, kFailed };
  enum class Stall : uint8_t { kNone, kPath, kReceiver };

  End end() const { return {device_.endpoint(), number_}; }
  Posted& at(uint64_t sequence) { return requests_[sequence - answered_]; }
  bool connected() const { return peer_.number != 0; }
  void on_connect_time();
  // The other end, if it can serve our requests.
  SimRdmaQueuePair* serving_peer() const;

  // The queue in which its messages are received.
  std::deque<ReceiveRequest>& receives();
  ReceiveRequest take_receive();
  void flush_receives();
  void accept(const SendRequest& request);
  void on_arrival();
  void on_answer();
  void on_path_changed();
  void on_receiver_ready();
  void on_polled(uint64_t sequence) { free_places_until_ = sequence + 1; }
  void break_now() { enter_error(CompletionStatus::kFailed); }

  // Moves requests as far as they can get now.
  void advance();
  // Returns false if the oldest arrived request has to wait.
  bool execute_next(SimRdmaQueuePair& peer);
  void set_outcome(CompletionStatus outcome);
  // Serves a request at the receiver.
  Verdict serve(const SendRequest& request, std::span<const std::byte> payload);
  void land_unnoticed(const End& from, const SendRequest& request);
  Verdict serve_send(const SendRequest& request, std::span<const std::byte> payload);
  void stall(Stall why, Duration limit);
  void end_stall();
  void on_stalled_too_long(uint64_t epoch);
  // The oldest outstanding request ends as `first`, and the others are flushed.
  void enter_error(CompletionStatus first);
  void let_departed_requests_arrive();
  void complete_send(const SendRequest& request, uint64_t sequence, CompletionStatus status);
  void complete_receive(const ReceiveRequest& receive, const SendRequest& request, size_t bytes,
                        CompletionStatus status);

  SimRdmaFabric& fabric_;
  SimRdmaDevice& device_;
  const uint32_t number_;
  End peer_;        // number 0: not connected
  End connecting_;  // likewise
  std::string refusal_;
  bool failed_ = false;
  bool landed_unnoticed_ = false;
  std::deque<ReceiveRequest> own_receives_;
  std::deque<Posted> requests_;  // posted, but not answered
  // The sequence number of the next request to reach each point.
  uint64_t posted_ = 0;
  uint64_t arrived_ = 0;
  uint64_t executed_ = 0;
  uint64_t answered_ = 0;
  uint64_t free_places_until_ = 0;  // earlier requests no longer take a place in the send queue
  uint32_t waiting_answers_ = 0;    // those that have reached us, but may be held up by a cut
  bool refused_ = false;            // the last executed request failed; no later one is executed
  Instant last_arrival_{};
  Stall stall_ = Stall::kNone;
  uint64_t stall_epoch_ = 0;
};

}  // namespace rocecoll
