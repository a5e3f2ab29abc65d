// SPDX-License-Identifier: Apache-2.0
// Unreliable packets. A port may lose, duplicate, reorder, delay or truncate; it never blocks
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
  // Every peer_limit() is always at least this, and every usable path carries it.
  size_t min_datagram_bytes = 0;
  // Datagrams up to this size get through to any peer, whatever its peer_limit(), if necessary in
  // fragments, which cost more. At least min_datagram_bytes.
  size_t guaranteed_datagram_bytes = 0;
  size_t max_burst = 0;  // datagrams worth handing to one send()
  // Payload that may be in flight towards us without drops, as far as is known. May change.
  size_t receive_buffer_bytes = 0;
  bool segmentation_offload = false;  // equal-sized datagrams to one peer cost about as much as one
};

struct PeerHandle {
  uint32_t index = 0;
};

// One packet to send: the header, then the payload. The header is copied before send() returns. The
// payload is lent until flush(), or until send() returns if the port completes synchronously.
struct TxDatagram {
  PeerHandle to;
  std::span<const std::byte> header;
  std::span<const std::byte> payload;
  // Its fate must not depend on its neighbours: it is not sent as a segment of a run, which a hop
  // may drop as a whole because the largest is too large.
  bool alone = false;
  // The payload lies in a queue, where it stays until the sender next receives. A port that keeps
  // the datagram for longer copies it.
  bool payload_is_queued = false;
};

// One received packet; receive() sets every member. `bytes` and `from` are lent until release().
// If the sender was added as a peer, `from` is the address that it was added with.
struct RxDatagram {
  std::span<const std::byte> bytes;
  const Address* from = nullptr;
  uint32_t lease = 0;  // the port's own bookkeeping
  // When this host got it, on clock(): earlier than receive() if it waited for its process to be
  // given a core. Unset if the port does not know.
  Instant received_at{};
  // A queue on the way marked it as too long (Congestion Experienced, RFC 3168).
  bool marked = false;
};

// The network reported that `peer` cannot be reached, and why (e.g. ICMP port unreachable). This is
// a hint that can be forged, never a verdict: the owner of the port probes the peer.
struct UnreachableHint {
  PeerHandle peer;
  Obstacle obstacle = Obstacle::kPortRefused;
};

class DatagramPort {
 public:
  virtual ~DatagramPort() = default;

  virtual PortLimits limits() const = 0;
  // Where peers reach this port. Does not change during the port's life.
  virtual Address address() const = 0;
  // Idempotent: the same address yields the same handle. kInvalidArgument for a foreign address.
  virtual Result<PeerHandle> add_peer(const Address& address) = 0;
  // Ends the use of the handle, which may become another peer's. Only while nothing is lent.
  virtual void remove_peer(PeerHandle peer) = 0;
  // The largest datagram that the path to this peer may carry, as far as this host knows (the MTU
  // of the route, what routers reported), capped by limits(). An upper bound that may change.
  virtual size_t peer_limit(PeerHandle peer) const = 0;
  // Brings peer_limit() up to date from the system's routes.
  virtual void look_at_route(PeerHandle /*peer*/) {}
  // The peer's hardware address may have changed: has the system look it up. Until a new one is
  // known, datagrams go to the old one.
  virtual void renew_way(PeerHandle /*peer*/) {}
  // The system is still looking, perhaps for seconds. Without a known address datagrams are lost.
  virtual bool seeks_way(PeerHandle /*peer*/) const { return false; }
  // Whether the peer is on this host, so that only its receive buffer limits what may be in flight.
  virtual bool on_this_host(PeerHandle /*peer*/) const { return false; }
  // What carries packets to this peer now protects them from changes better than UDP's 16-bit sum:
  // there is only memory in between, or RoCE's invariant CRC of 32 bits over everything that
  // switches leave as it is (InfiniBand specification, annex A17). May change; a packet that relies
  // on it and then goes another way is checked there all the same.
  virtual bool checks_payload(PeerHandle peer) const { return on_this_host(peer); }
  // The current path to this peer, by its name in PathStats.
  virtual std::string_view carrier(PeerHandle /*peer*/) const { return "udp"; }
  // limits().guaranteed_datagram_bytes, or more for a peer that is reached in another way.
  virtual size_t guaranteed_bytes(const Address& /*peer*/) const {
    return limits().guaranteed_datagram_bytes;
  }
  // Sends a prefix of the batch and returns its length; less than the whole when the port's own
  // buffers, which all peers share, are full (try again later; wait_handle does not announce room,
  // the caller retries on a timer). Nothing is lost then. A problem with one peer never holds up
  // the others: a datagram that the network refuses for good, or for which the queue of the device
  // on the way to its peer has no room, counts as sent and lost.
  virtual size_t send(std::span<const TxDatagram> batch) = 0;
  // Sends one datagram to an address that need not be a peer's, and remembers nothing of it. False
  // if the port's own buffers are full; any other error loses the datagram.
  virtual bool send_to(const Address& address, std::span<const std::byte> datagram) = 0;
  // Fills a prefix of `batch` and returns its length; 0 if nothing has arrived.
  virtual size_t receive(std::span<RxDatagram> batch) = 0;
  // The current time; `told` where no time passes during a call, as in a simulation.
  virtual Instant clock(Instant told) const { return told; }
  virtual void release(std::span<const RxDatagram> batch) = 0;
  // Takes the oldest unread hint; false if there is none. The queue is bounded and drops its
  // oldest.
  virtual bool poll_unreachable(UnreachableHint& hint) = 0;
  // When this returns, no payload is lent any more.
  virtual void flush() = 0;
  virtual WaitHandle wait_handle() = 0;
  // Call before sleeping on the handle. False: datagrams may have arrived already; receive() first.
  virtual bool arm() { return true; }
  // Not ok, with the reason, while nothing can be sent or received, e.g. the device's port is down.
  virtual Status health() { return {}; }
  // When receive() must be called next even if the wait handle stays quiet. For ports that delay
  // datagrams themselves.
  virtual Instant next_deadline() const { return kNever; }
};

}  // namespace rocecoll
