// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/udp/udp_port.h"

#include <errno.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/monotonic_clock.h"

namespace rocecoll {
namespace {

constexpr size_t kMinDatagramBytes = 512;
constexpr size_t kMaxDatagramBytes = 65'000;  // UdpSender's largest message
// What every path carries: BASE_PLPMTU of RFC 8899 section 5.1.2, which fits into the least MTU of
// IPv6 (RFC 8200 section 5) with headers and a small reserve for tunnels.
constexpr size_t kBaseDatagramBytes = 1200;
constexpr size_t kMaxBurst = 128;  // 64 KiB of Ethernet-sized datagrams take 46
constexpr size_t kMaxUnreachable = 64;

}  // namespace

Result<std::unique_ptr<UdpPort>> UdpPort::Open(const UdpPortOptions& options) {
  if (options.max_datagram_bytes < kMinDatagramBytes) {
    return Status(StatusCode::kInvalidArgument,
                  "datagrams of " + std::to_string(options.max_datagram_bytes) +
                      " bytes are too short, at least " + std::to_string(kMinDatagramBytes));
  }
  Result<UdpSocket> socket = UdpSocket::Open(options);
  if (!socket.ok()) return socket.status();
  return std::unique_ptr<UdpPort>(new UdpPort(socket.take(), options));
}

UdpPort::UdpPort(UdpSocket socket, const UdpPortOptions& options)
    : socket_(std::move(socket)),
      max_datagram_bytes_(std::min(options.max_datagram_bytes, kMaxDatagramBytes)),
      min_datagram_bytes_(std::min(max_datagram_bytes_, kBaseDatagramBytes)),
      guaranteed_datagram_bytes_(guaranteed_towards(socket_.endpoint())),
      address_(ToAddress(socket_.endpoint())),
      sender_(
          socket_.fd(), socket_.send_offload(),
          [this](PeerHandle peer) -> UdpDestination& { return peers_[peer.index].destination; },
          [this] { drain_errors(); },
          [this](PeerHandle peer, int error) { note_refusal(peer, error); },
          [this](PeerHandle peer) { read_route(peer); }),
      receiver_(
          socket_,
          [this](const UdpEndpoint& endpoint) {
            const auto found = peer_of_.find(endpoint);
            return found == peer_of_.end() ? nullptr : &peers_[found->second].address;
          },
          [this] { drain_errors(); }) {}

PortLimits UdpPort::limits() const {
  PortLimits limits;
  limits.max_datagram_bytes = max_datagram_bytes_;
  limits.min_datagram_bytes = min_datagram_bytes_;
  limits.guaranteed_datagram_bytes = guaranteed_datagram_bytes_;
  limits.max_burst = kMaxBurst;
  limits.receive_buffer_bytes = receiver_.room_bytes();
  limits.segmentation_offload = socket_.send_offload();
  return limits;
}

Result<PeerHandle> UdpPort::add_peer(const Address& address) {
  Result<UdpEndpoint> endpoint = ToUdpEndpoint(address);
  if (!endpoint.ok()) return endpoint.status();
  if (endpoint.value().family() != socket_.endpoint().family()) {
    return Status(StatusCode::kInvalidArgument, "cannot reach " + address.text() + " from " +
                                                    address_.text() + ": one is IPv4, one IPv6");
  }
  const auto index = free_.empty() ? static_cast<uint32_t>(peers_.size()) : free_.back();
  const auto [at, added] = peer_of_.try_emplace(endpoint.value(), index);
  if (added) {
    if (free_.empty()) {
      peers_.emplace_back();
    } else {
      free_.pop_back();
    }
    peers_[index] = {{endpoint.value(), socket_.source_for(endpoint.value())},
                     ToAddress(endpoint.value())};
    read_route({index});
  }
  return PeerHandle{at->second};
}

void UdpPort::remove_peer(PeerHandle peer) {
  ROCECOLL_CHECK(peer.index < peers_.size());
  ROCECOLL_CHECK(peer_of_.erase(peers_[peer.index].destination.endpoint) == 1);
  removed_.push_back(peer.index);
}

bool UdpPort::send_to(const Address& address, std::span<const std::byte> datagram) {
  const Result<UdpEndpoint> to = ToUdpEndpoint(address);
  if (!to.ok() || to.value().family() != socket_.endpoint().family()) return true;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    if (socket_.send_to(to.value(), datagram)) return true;
    if (errno == EAGAIN || errno == ENOMEM) return false;
    drain_errors();  // the error may have been a report about an earlier datagram
  }
  return true;
}

size_t UdpPort::receive(std::span<RxDatagram> batch) {
  if (!removed_.empty() && receiver_.idle()) {
    free_.insert(free_.end(), removed_.begin(), removed_.end());
    removed_.clear();
  }
  return receiver_.receive(batch);
}

Instant UdpPort::clock(Instant) const { return MonotonicNow(); }

size_t UdpPort::peer_limit(PeerHandle peer) const {
  ROCECOLL_CHECK(peer.index < peers_.size());
  return peers_[peer.index].destination.max_datagram_bytes;
}

void UdpPort::look_at_route(PeerHandle peer) {
  read_route(peer);
  peers_[peer.index].destination.segments = true;  // the route may be a different one now
}

void UdpPort::read_route(PeerHandle peer) {
  UdpDestination& to = peers_[peer.index].destination;
  const size_t route = UdpSocket::RoutePayloadBytes(to.endpoint);
  if (route == 0 && to.max_datagram_bytes > 0) return;  // there is no route at the moment
  const size_t limit = std::clamp(route, min_datagram_bytes_, max_datagram_bytes_);
  if (limit != to.max_datagram_bytes) to.segments = true;
  to.max_datagram_bytes = limit;
}

bool UdpPort::on_this_host(PeerHandle peer) const {
  ROCECOLL_CHECK(peer.index < peers_.size());
  return peers_[peer.index].destination.endpoint.is_loopback();
}

// Ranks of one host reach each other over loopback, whatever address other hosts use.
size_t UdpPort::guaranteed_bytes(const Address& peer) const {
  const Result<UdpEndpoint> endpoint = ToUdpEndpoint(peer);
  return endpoint.ok() ? guaranteed_towards(endpoint.value()) : min_datagram_bytes_;
}

// On loopback, what its MTU carries unfragmented. If that MTU shrinks later, fragments still get
// through.
size_t UdpPort::guaranteed_towards(const UdpEndpoint& endpoint) const {
  if (!endpoint.is_loopback()) return min_datagram_bytes_;
  return std::clamp(UdpSocket::RoutePayloadBytes(endpoint), min_datagram_bytes_,
                    max_datagram_bytes_);
}

void UdpPort::drain_errors() {
  too_large_.clear();
  socket_.drain_errors(unreachable_, too_large_);
  for (const UdpEndpoint& destination : too_large_) {
    const auto found = peer_of_.find(destination);
    if (found != peer_of_.end()) read_route({found->second});
  }
  while (unreachable_.size() > kMaxUnreachable) unreachable_.pop_front();
}

void UdpPort::note_refusal(PeerHandle peer, int error) {
  const Obstacle obstacle = UdpSocket::ObstacleOf(static_cast<uint32_t>(error));
  if (obstacle == Obstacle::kNone) return;
  if (unreachable_.size() == kMaxUnreachable) unreachable_.pop_front();
  unreachable_.push_back({peers_[peer.index].destination.endpoint, obstacle});
}

bool UdpPort::poll_unreachable(UnreachableHint& hint) {
  while (!unreachable_.empty()) {
    const UdpObstacle said = unreachable_.front();
    unreachable_.pop_front();
    const auto found = peer_of_.find(said.destination);
    if (found == peer_of_.end()) continue;
    hint = {{found->second}, said.obstacle};
    return true;
  }
  return false;
}

}  // namespace rocecoll
