// SPDX-License-Identifier: Apache-2.0
// The receiving half of DatagramTransport.
#include <algorithm>
#include <array>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "transport/datagram/datagram_transport.h"

namespace rocecoll {

void DatagramTransport::release_leases() {
  ROCECOLL_CHECK(all_events_taken());
  lent_frames_.clear();
  notices_.clear();
  next_notice_ = 0;
  if (received_count_ == 0) return;
  port_->release(std::span(received_).first(received_count_));
  received_count_ = 0;
}

void DatagramTransport::receive() {
  ROCECOLL_CHECK(received_count_ == 0);
  received_count_ = port_->receive(received_);
  tell_time();  // after what was received
  // The port may hold more without its wait handle being ready.
  more_to_receive_ = received_count_ == kReceiveBatch;
  for (const RxDatagram& datagram : std::span(received_).first(received_count_)) {
    ++stats_.packets_received;
    stats_.bytes_received += datagram.bytes.size();
    dispatch(datagram);
  }
}

void DatagramTransport::dispatch(const RxDatagram& datagram) {
  const auto header = ParsePacketHeader(datagram.bytes);
  if (!header || !VerifyPacket(datagram.bytes)) {
    ++stats_.packets_dropped_invalid;
    return;
  }
  switch (header->type) {
    case PacketType::kPacket:
      if (Endpoint* endpoint = table_.find(header->connection_id)) {
        feed(*endpoint, datagram);
      } else {
        on_unknown(datagram, header->connection_id);
      }
      return;
    case PacketType::kInit:
      on_init(datagram);
      return;
    case PacketType::kReset:
      if (Endpoint* endpoint = table_.find_by_peer_id(header->connection_id)) {
        endpoint->connection.on_reset(now_);
        touch(*endpoint);
      } else {
        ++stats_.packets_dropped_invalid;
      }
      return;
    case PacketType::kNotOpen:
      on_not_open(datagram, header->connection_id);
      return;
    case PacketType::kNotice:
      on_notice(datagram);
      return;
    case PacketType::kHello:  // to a port that has no second one beside it
    case PacketType::kProbe:
      ++stats_.packets_dropped_invalid;
      return;
  }
}

void DatagramTransport::feed(Endpoint& endpoint, const RxDatagram& datagram) {
  endpoint.traffic.received(datagram.bytes.size());
  shares_.on_datagram(now_, endpoint, datagram.bytes.size());
  const uint64_t share = shares_.share_bytes(endpoint.path);
  if (endpoint.advertised_bytes != share) {
    endpoint.advertised_bytes = share;
    endpoint.connection.set_receive_window(share);
  }
  const bool known = datagram.received_at != Instant{};
  const Instant arrived_at = known ? std::min(datagram.received_at, now_) : now_;
  endpoint.connection.on_datagram(now_, arrived_at, datagram.bytes, datagram.marked);
  touch(endpoint);
}

// Processes an INIT. For a link that is not open here the owner is told; it may open the link now
// or at any time, and the sender repeats the INIT. Meanwhile the sender learns that this process
// lives.
void DatagramTransport::on_init(const RxDatagram& datagram) {
  const auto init = ParseInitBody(datagram.bytes);
  if (!init) {
    ++stats_.packets_dropped_invalid;
    return;
  }
  Endpoint* endpoint = table_.find(init->link.mirrored());
  if (endpoint == nullptr) {
    incoming_.push_back(init->link.mirrored());
    if (!not_opens_.allow(now_)) return;
    std::array<std::byte, NotOpenBody::kWireBytes> body;
    StoreLe(body.data(), process_);
    answer(*datagram.from, PacketType::kNotOpen, init->source_id, body);
    return;
  }
  const bool was_established = endpoint->connection.established();
  feed(*endpoint, datagram);
  if (!was_established && endpoint->connection.established()) {
    table_.set_peer_id(*endpoint, init->source_id);
    confirm_others(*endpoint);
  }
}

// NOT_OPEN from the process whose address was used to open the link means that the link will be
// opened there once its program gets so far. From another process it means that this will never
// happen.
void DatagramTransport::on_not_open(const RxDatagram& datagram, uint64_t connection_id) {
  const auto body = ParseNotOpenBody(datagram.bytes);
  Endpoint* endpoint = table_.find(connection_id);
  if (!body || endpoint == nullptr) {
    ++stats_.packets_dropped_invalid;
  } else if (endpoint->process == 0 || endpoint->process == body->process) {
    endpoint->connection.on_not_open(now_);
  } else {
    endpoint->connection.on_replaced(now_);
    touch(*endpoint);
    confirm_others(*endpoint);
  }
}

// A process that was restarted at an old address keeps the path alive. Connections to its
// predecessor may be idle on that path, and nothing else would tell their owners.
void DatagramTransport::confirm_others(const Endpoint& opened) {
  PeerPath& path = opened.path;
  if (now_ < path.confirmed_at + kConfirmInterval) return;
  path.confirmed_at = now_;
  for (Endpoint* e = path.endpoints.front(); e != nullptr; e = PathList::next(*e)) {
    if (e != &opened && e->connection.confirm(now_)) wants_to_transmit(*e);
  }
}

void DatagramTransport::on_unknown(const RxDatagram& datagram, uint64_t connection_id) {
  ++stats_.packets_dropped_invalid;
  if (connection_id == 0 || !resets_.allow(now_)) return;
  answer(*datagram.from, PacketType::kReset, connection_id, {});
}

// Keeps no state for the sender, which may be any host.
void DatagramTransport::answer(const Address& to, PacketType type, uint64_t connection_id,
                               std::span<const std::byte> body) {
  std::array<std::byte, kPacketHeaderBytes + NotOpenBody::kWireBytes> space;
  ROCECOLL_CHECK(body.size() <= NotOpenBody::kWireBytes);
  const auto packet = std::span(space).first(kPacketHeaderBytes + body.size());
  WritePacketHeader(packet, {type, connection_id, 0});
  std::copy(body.begin(), body.end(), packet.begin() + kPacketHeaderBytes);
  SealPacket(packet, {});
  if (!port_->send_to(to, packet)) return;  // the sender repeats its packet
  ++stats_.packets_sent;
  stats_.bytes_sent += packet.size();
}

void DatagramTransport::on_notice(const RxDatagram& datagram) {
  const auto notice = datagram.bytes.subspan(kPacketHeaderBytes);
  if (notice.empty() || notice.size() > kMaxNoticeBytes) {
    ++stats_.packets_dropped_invalid;
    return;
  }
  notices_.push_back(notice);
}

void DatagramTransport::take_hints() {
  UnreachableHint hint;
  while (port_->poll_unreachable(hint)) {
    PeerPath* path = table_.find_path(hint.peer);
    if (path == nullptr) continue;
    for (Endpoint* e = path->endpoints.front(); e != nullptr; e = PathList::next(*e)) {
      e->connection.on_unreachable_hint(now_, hint.obstacle);
      keep_timers(*e);
      touch(*e);
    }
  }
}

}  // namespace rocecoll
