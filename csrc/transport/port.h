// SPDX-License-Identifier: Apache-2.0
// L1: unreliable packets. A port may lose, duplicate, reorder, delay or truncate; it never blocks
// and never allocates per packet. Implemented by UDP sockets, UD queue pairs, the simulator, and by
// a fault-injecting decorator over any of them. Used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "base/time.h"
#include "transport/address.h"
#include "transport/obstacle.h"
#include "transport/wait_handle.h"

namespace rocecoll {

struct PortLimits {
  size_t max_datagram_bytes = 0;  // largest datagram towards any peer (see peer_limit)
  // Every peer_limit() is at least this, at any time, and every path that is of use carries it.
  size_t min_datagram_bytes = 0;
  // Up to this size datagrams get through to any peer, whatever its peer_limit() is, if need be in
  // fragments, which costs more. At least min_datagram_bytes.
  size_t guaranteed_datagram_bytes = 0;
  size_t max_burst = 0;  // datagrams worth handing to one send()
  // Payload that may be in flight towards us without drops, as far as is known: may change.
  size_t receive_buffer_bytes = 0;
  bool segmentation_offload = false;  // equal-sized datagrams to one peer cost about one
};

struct PeerHandle {
  uint32_t index = 0;
};

// One packet to send: header then payload. The header is copied before send() returns; the payload
// is lent until flush() or until send() of a port without asynchronous completions returns.
struct TxDatagram {
  PeerHandle to;
  std::span<const std::byte> header;
  std::span<const std::byte> payload;
  // What becomes of it must not depend on its neighbours: it is no segment of a run that a hop may
  // drop as a whole, because the largest is too large for it.
  bool alone = false;
  // The payload lies in a queue, where it stays until the sender looks at what has come. Whoever
  // keeps the datagram for longer copies it.
  bool payload_is_queued = false;
};

// One received packet, written whole by receive(). `bytes` and `from` are lent until release().
// `from` of a peer that was added is the address it was added with.
struct RxDatagram {
  std::span<const std::byte> bytes;
  const Address* from = nullptr;
  uint32_t lease = 0;  // the port's own bookkeeping
  // When this host got it, on clock(), as far as the port knows: before receive() by what it waited
  // here for its process to be given a core. Else unset.
  Instant received_at{};
  // A queue on the way was too long for its owner's taste (Congestion Experienced, RFC 3168).
  bool marked = false;
};

// The network said that `peer` cannot be reached, and how (e.g. ICMP port unreachable). A hint,
// forgeable, never a verdict: the owner probes the peer.
struct UnreachableHint {
  PeerHandle peer;
  Obstacle obstacle = Obstacle::kPortRefused;
};

class DatagramPort {
 public:
  virtual ~DatagramPort() = default;

  virtual PortLimits limits() const = 0;
  // Where peers reach this port. Stable for the port's life.
  virtual Address address() const = 0;
  // Idempotent: the same address yields the same handle. kInvalidArgument for a foreign address.
  virtual Result<PeerHandle> add_peer(const Address& address) = 0;
  // The handle is not used any more and may be another peer's later. Only while nothing is lent.
  virtual void remove_peer(PeerHandle peer) = 0;
  // Largest datagram that this host knows the path to this peer to take (the MTU of its route,
  // what routers reported), capped by limits(). An upper bound. May change.
  virtual size_t peer_limit(PeerHandle peer) const = 0;
  // peer_limit() may be out of date: brings it up to date, with a look at the system's routes.
  virtual void look_at_route(PeerHandle /*peer*/) {}
  // What carries datagrams to this peer may have moved, with another hardware address: has the
  // system look where it is. What is sent goes the way that is known until another one is.
  virtual void renew_way(PeerHandle /*peer*/) {}
  // The system is looking, perhaps for seconds. Without any known way what is sent is lost.
  virtual bool seeks_way(PeerHandle /*peer*/) const { return false; }
  // No network lies between us and this peer: only its receive buffer limits what may be in flight.
  virtual bool on_this_host(PeerHandle /*peer*/) const { return false; }
  // What carries packets to this peer now delivers none that has changed on its way, by more than
  // UDP's sum of 16 bits: there is only memory in between, or RoCE's invariant CRC of 32 bits over
  // all that switches leave as it is (InfiniBand specification, annex A17). May change; a packet
  // that relies on it and then goes another way is checked there all the same.
  virtual bool checks_payload(PeerHandle peer) const { return on_this_host(peer); }
  // What carries packets to this peer now, as PathStats calls it.
  virtual std::string_view carrier(PeerHandle /*peer*/) const { return "udp"; }
  // limits().guaranteed_datagram_bytes, or more for a peer that is reached another way than the
  // rest.
  virtual size_t guaranteed_bytes(const Address& /*peer*/) const {
    return limits().guaranteed_datagram_bytes;
  }
  // Sends a prefix of the batch and returns its length; less than the whole when the port's own
  // buffers, which all peers share, are full (try again later; wait_handle does not announce room,
  // the caller retries on a timer). Nothing is lost then. What only concerns one peer never holds
  // up the others: a datagram that the network refuses for good, or that the queue of the device on
  // the way to its peer has no room for, counts as sent and lost.
  virtual size_t send(std::span<const TxDatagram> batch) = 0;
  // Sends one datagram to an address that need not be a peer's, and remembers nothing of it. False
  // if the port's own buffers are full; whatever else goes wrong loses the datagram.
  virtual bool send_to(const Address& address, std::span<const std::byte> datagram) = 0;
  // Fills a prefix of `batch` and returns its length; 0 when nothing waits.
  virtual size_t receive(std::span<RxDatagram> batch) = 0;
  // The time at this moment; `told` where none passes while a call is served, as in a simulation.
  virtual Instant clock(Instant told) const { return told; }
  virtual void release(std::span<const RxDatagram> batch) = 0;
  // True and fills `hint` while unread hints are queued (bounded, oldest dropped).
  virtual bool poll_unreachable(UnreachableHint& hint) = 0;
  // On return every lent payload slice is the caller's again.
  virtual void flush() = 0;
  virtual WaitHandle wait_handle() = 0;
  // Call before sleeping on the handle. False: datagrams may wait already, receive() first.
  virtual bool arm() { return true; }
  // Not ok while nothing can be sent or received at all, e.g. the device's port is down; says why.
  virtual Status health() { return {}; }
  // When receive() must be called next even if the wait handle stays quiet: for ports that hold
  // datagrams back themselves.
  virtual Instant next_deadline() const { return kNever; }
};

}  // namespace rocecoll
