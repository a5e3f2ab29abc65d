// SPDX-License-Identifier: Apache-2.0
// Turns datagrams into send requests. Each datagram is copied into a registered slot, with header
// and payload in one piece. A burst is one list for the device; the completion of every
// kSignalEvery-th request shows that it and all earlier ones are done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "transport/port.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/registered_buffer.h"
#include "transport/verbs/ud_peers.h"
#include "transport/verbs/verbs_port.h"

namespace rocecoll {

class UdSender {
 public:
  static constexpr size_t kMaxBurst = 64;

  // Creates a completion queue and slots for up to `slots` datagrams in flight.
  static Result<std::unique_ptr<UdSender>> Create(VerbsPort& port, size_t slots);
  UdSender(const UdSender&) = delete;
  UdSender& operator=(const UdSender&) = delete;

  ibv_cq* completions() const { return completions_.get(); }
  size_t slots() const { return slots_; }

  // As DatagramPort::send. `own_key` travels with each datagram, so that the receiver can answer.
  size_t send(ibv_qp& queue_pair, uint32_t max_inline_bytes, uint32_t own_key, const UdPeers& peers,
              std::span<const TxDatagram> batch);
  // Requests before number done() are over; posted() is the number of the next one.
  uint64_t done() const { return first_; }
  uint64_t posted() const { return next_; }
  // A request has failed, and the queue pair with it: reset the queue pair, then call restart().
  bool failed() const { return failed_; }
  // Forgets the requests in flight. The queue pair has been reset.
  void restart();

 private:
  UdSender(VerbsPort& port, RegisteredBuffer buffer, CompletionQueueHandle completions,
           size_t slots, size_t slot_bytes);
  void take_completions();
  size_t post(ibv_qp& queue_pair, std::span<ibv_send_wr> list);
  std::span<std::byte> fill(uint64_t index, const TxDatagram& datagram);

  static constexpr uint64_t kSignalEvery = 16;

  VerbsPort& port_;
  RegisteredBuffer buffer_;
  CompletionQueueHandle completions_;
  const size_t slots_;  // a multiple of kSignalEvery, so full slots always include a signalled one
  const size_t slot_bytes_;
  // Requests are numbered; those in [first_, next_) are outstanding.
  uint64_t first_ = 0;
  uint64_t next_ = 0;
  bool failed_ = false;
};

}  // namespace rocecoll
