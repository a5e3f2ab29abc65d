// SPDX-License-Identifier: Apache-2.0
// Turns receive requests into datagrams. The device puts 40 bytes before each payload (GRH): the
// IPv6 header of the packet, or the IPv4 header in the last 20 of these bytes (InfiniBand annex
// A17.4.5.1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "transport/port.h"
#include "transport/verbs/completion_queue.h"
#include "transport/verbs/registered_buffer.h"
#include "transport/verbs/ud_peers.h"
#include "transport/verbs/verbs_port.h"

namespace rocecoll {

inline constexpr size_t kRoutingHeaderBytes = 40;
// The sender's GID according to the IP header found there; empty if the packet is of the other
// family.
std::optional<Gid> SenderOf(std::span<const std::byte, kRoutingHeaderBytes> header, bool ipv4);

class UdReceiver {
 public:
  static Result<std::unique_ptr<UdReceiver>> Create(VerbsPort& port, size_t slots);
  UdReceiver(const UdReceiver&) = delete;
  UdReceiver& operator=(const UdReceiver&) = delete;

  CompletionQueue& completions() { return *completions_; }
  size_t slots() const { return slots_.size(); }

  // As in DatagramPort.
  size_t receive(ibv_qp& queue_pair, const UdPeers& peers, std::span<RxDatagram> batch);
  void release(ibv_qp& queue_pair, std::span<const RxDatagram> batch);
  // A request was flushed because the queue pair has failed: reset the queue pair, then call
  // restart().
  bool failed() const { return failed_; }
  // Gives every slot that is not leased to the queue pair, which is new or was reset.
  void restart(ibv_qp& queue_pair);

 private:
  struct Slot {
    bool leased = false;
    Address stranger;  // the sender's address unless it is a known peer
  };
  UdReceiver(VerbsPort& port, RegisteredBuffer buffer, std::unique_ptr<CompletionQueue> completions,
             size_t slots, size_t slot_bytes);
  bool accept(const ibv_wc& completion, const UdPeers& peers, RxDatagram& datagram);
  std::span<std::byte> landing(uint64_t slot) const;
  void post(ibv_qp& queue_pair, std::span<const uint32_t> slots);

  VerbsPort& port_;
  RegisteredBuffer buffer_;
  std::unique_ptr<CompletionQueue> completions_;
  const size_t slot_bytes_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> idle_;  // to be posted again; a member so that its memory is reused
  bool failed_ = false;
};

}  // namespace rocecoll
