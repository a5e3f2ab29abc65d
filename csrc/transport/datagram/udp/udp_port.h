// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/datagram/udp/udp_address.h"
#include "transport/datagram/udp/udp_receiver.h"
#include "transport/datagram/udp/udp_sender.h"
#include "transport/datagram/udp/udp_socket.h"
#include "transport/port.h"

namespace rocecoll {

// One UDP socket for all peers.
class UdpPort final : public DatagramPort {
 public:
  static Result<std::unique_ptr<UdpPort>> Open(const UdpPortOptions& options);
  UdpPort(const UdpPort&) = delete;
  UdpPort& operator=(const UdpPort&) = delete;

  std::string description() const { return socket_.description(); }  // for people
  PortLimits limits() const override;
  Address address() const override { return address_; }
  Result<PeerHandle> add_peer(const Address& address) override;
  void remove_peer(PeerHandle peer) override;
  size_t peer_limit(PeerHandle peer) const override;
  void look_at_route(PeerHandle peer) override;
  bool on_this_host(PeerHandle peer) const override;
  size_t guaranteed_bytes(const Address& peer) const override;
  size_t send(std::span<const TxDatagram> batch) override { return sender_.send(batch); }
  bool send_to(const Address& address, std::span<const std::byte> datagram) override;
  size_t receive(std::span<RxDatagram> batch) override;
  Instant clock(Instant) const override;
  void release(std::span<const RxDatagram> batch) override { receiver_.release(batch); }
  bool poll_unreachable(UnreachableHint& hint) override;
  void flush() override {}  // send() lends nothing beyond its return
  WaitHandle wait_handle() override { return WaitHandle(socket_.fd()); }

 private:
  struct Peer {
    UdpDestination destination;
    Address address;
  };
  UdpPort(UdpSocket socket, const UdpPortOptions& options);
  void drain_errors();
  void note_refusal(PeerHandle peer, int error);
  void read_route(PeerHandle peer);
  size_t guaranteed_towards(const UdpEndpoint& endpoint) const;

  UdpSocket socket_;
  const size_t max_datagram_bytes_;
  const size_t min_datagram_bytes_;
  const size_t guaranteed_datagram_bytes_;
  const Address address_;
  std::deque<Peer> peers_;  // a deque, whose elements do not move as it grows
  std::unordered_map<UdpEndpoint, uint32_t, UdpEndpointHash> peer_of_;
  // Entries of peers_ that may be reused; those in removed_ only once the receiver, which may still
  // name their addresses, is idle.
  std::vector<uint32_t> removed_;
  std::vector<uint32_t> free_;
  std::deque<UdpObstacle> unreachable_;
  std::vector<UdpEndpoint> too_large_;  // within drain_errors()
  UdpSender sender_;
  UdpReceiver receiver_;
};

}  // namespace rocecoll
