// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "base/check.h"
#include "transport/datagram/reliability/connection_impl.h"
#include "transport/datagram/reliability/packet_wire.h"

namespace rocecoll {

void Connection::Impl::on_datagram(Instant now, Instant arrived_at,
                                   std::span<const std::byte> bytes, bool marked) {
  if (finished) return;
  const auto header = ParsePacketHeader(bytes);
  if (header && header->type == PacketType::kInit) {
    on_init(now, arrived_at, *header, bytes);
  } else if (header && header->type == PacketType::kPacket && header->connection_id == local_id) {
    on_packet(now, arrived_at, *header, bytes, marked);
  } else {
    ++invalid_packets;
  }
}

void Connection::Impl::heard(Instant now) {
  ROCECOLL_CHECK(now >= path.last_heard);
  path.last_heard = now;
}

void Connection::Impl::on_init(Instant now, Instant arrived_at, const PacketHeader& header,
                               std::span<const std::byte> bytes) {
  const auto init = ParseInitBody(bytes);
  const auto parameters = ParseInitParameters(bytes);
  if (!init || !parameters || parameters->max_datagram_bytes < kPacketHeaderBytes + 256) {
    ++invalid_packets;
    return;
  }
  const bool was_established = handshake.established();
  const bool was_confirmed = handshake.confirmed();
  const auto verdict = handshake.on_init(now, *init);
  if (verdict == Handshake::Verdict::kIgnored) return;
  // No packet number is used twice: a duplicate may be a dead peer's packet that was replayed.
  if (!ack_tracker.is_duplicate(header.packet_number)) {
    heard(now);
    ack_tracker.on_received(arrived_at, header.packet_number, bytes.size(), false, false);
  }
  if (!was_established) {
    ROCECOLL_CHECK(handshake.established());
    liveness.on_established(now);
    peer_window = parameters->receive_window;
    peer_window_number = header.packet_number;
    path.mtu.set_peer_limit(parameters->max_datagram_bytes);
  }
  // The handshake measures the path before anything of ours stands in a queue.
  if (verdict == Handshake::Verdict::kConfirm && !was_confirmed) {
    if (const auto round_trip = handshake.round_trip(arrived_at)) {
      path.rtt.on_sample(now, *round_trip, Duration{0}, true);
      path.congestion->take_timing(now, {path.rtt.network()});
    }
  }
  if (verdict == Handshake::Verdict::kConfirm && !lost_contact()) ping_due = true;
}

bool Connection::Impl::is_valid_body(uint64_t number, const PacketBody& read) const {
  if (read.settled && *read.settled > number) return false;
  if (read.has_ack && read.ack.largest() >= sent.next_number()) return false;
  // Once down or closed, there are no regions, and DATA is ignored unread.
  if (read.data && !down && !closing.closed) return regions.is_valid(*read.data);
  return true;
}

void Connection::Impl::on_packet(Instant now, Instant arrived_at, const PacketHeader& header,
                                 std::span<const std::byte> bytes, bool marked) {
  if (ack_tracker.is_duplicate(header.packet_number)) return;
  heard(now);
  shown_at = now;
  if (!ParsePacketBody(bytes.subspan(kPacketHeaderBytes), body) ||
      !is_valid_body(header.packet_number, body)) {
    ++invalid_packets;
    return;
  }
  // The packet is not acknowledged, so that its content comes again.
  if (!down && !closing.closed && !reassembly.has_room(body.frames)) return;
  handshake.on_packet();
  if (body.settled) ack_tracker.on_settled(*body.settled);
  const bool marks_begin = body.eliciting() && ack_tracker.on_mark(marked);
  ack_tracker.on_received(arrived_at, header.packet_number, bytes.size(), body.eliciting(),
                          body.ping || body.close.has_value() || marks_begin);
  if (body.has_ack && !down) on_ack(now, arrived_at, header.packet_number, body.ack);
  if (!finished && !down && !closing.closed) on_content(body);
  if (body.close && !finished) on_peer_close(*body.close);
  complete_peer_close();
}

void Connection::Impl::on_ack(Instant now, Instant arrived_at, uint64_t number,
                              const AckFrame& ack) {
  ROCECOLL_CHECK(ack.largest() < sent.next_number());
  uint32_t newly_marked = 0;
  if (number >= peer_window_number) {
    peer_window = ack.receive_window;
    newly_marked = ack.marked_packets - peer_marked;
    peer_marked = ack.marked_packets;
    peer_window_number = number;
  }
  std::optional<CongestionController::Timing> timing;
  if (sent.contains(ack.largest())) {
    const SentPacket& packet = sent[ack.largest()];
    if (packet.state == SentPacket::State::kInFlight && path.measurable(packet.sent_at)) {
      path.on_measured();
      const Duration sample = std::max(arrived_at - packet.sent_at, Duration{0});
      path.rtt.on_sample(now, sample, ack.delay, packet.asks_at_once);
      const Duration network = path.rtt.network();
      const Duration back = path.way_back.queue(network - path.rtt.min_rtt(),
                                                WireMicroseconds(packet.sent_at), ack.arrived_us);
      timing = {network - back, back, std::max(sample - network, Duration{0}),
                loss_detector.reordering_seen()};
    }
  }
  uint64_t acknowledged_packets = 0;
  for (size_t i = 0; i < ack.range_count; ++i) {
    sent.acknowledge(ack.ranges[i].begin, ack.ranges[i].end,
                     [&](uint64_t acknowledged, const SentPacket& packet) {
                       on_acknowledged(now, acknowledged, packet);
                       ++acknowledged_packets;
                     });
  }
  if (acknowledged_packets == 0) return;
  // A peer cannot report more marks than packets that it acknowledges.
  const uint64_t marked = std::min<uint64_t>(newly_marked, acknowledged_packets);
  marked_packets += marked;
  path.congestion->on_marked(marked);
  const Duration since_arrival = timing ? timing->back + timing->host : Duration{0};
  path.congestion->end_acknowledgement(now, arrived_at - since_arrival, timing);
  probe_timeout.on_progress();
  closing.progress_at = now;
  declare_losses(now, arrived_at);
  forget_settled(now);
  maybe_finish_closing();
}

void Connection::Impl::on_acknowledged(Instant now, uint64_t number, const SentPacket& packet) {
  ROCECOLL_CHECK(packet.sent_at <= now);
  if (packet.state == SentPacket::State::kInFlight) {
    path.congestion->on_acked(packet.bytes, packet.sent_at, packet.stamp);
  }
  loss_detector.on_acknowledged(now, number, packet, path.rtt);
  if (packet.mtu_probe) {
    if (packet.state == SentPacket::State::kInFlight) mtu_probe_in_flight = false;
    path.mtu.on_probe_acknowledged(now, packet.bytes);
  } else {
    path.mtu.on_acknowledged(packet.bytes, packet.sent_at);
  }
  if (packet.frame_count > 0) send_queue.on_acknowledged(packet.frame_first, packet.frame_count);
  if (packet.data_length > 0) {
    const auto token =
        writes.on_acknowledged(packet.write_index, packet.data_offset, packet.data_length);
    if (token) events.push_back({Event::Kind::kWritten, *token, {}, {}});
  }
  if (packet.close) {
    closing.close_acknowledged = true;
    closing.close_due = false;
  }
}

void Connection::Impl::on_content(const PacketBody& read) {
  ROCECOLL_CHECK(!down && !closing.closed);
  for (const FrameField& frame : read.frames) {
    if (reassembly.accept(frame, events)) continue;
    lose_contact({StatusCode::kNetwork, "it sent a frame that is longer than any may be"});
    return;
  }
  if (!read.data) return;
  const auto token = regions.write(*read.data);
  if (token) events.push_back({Event::Kind::kLanded, *token, {}, {}});
}

void Connection::Impl::on_peer_close(const CloseField& close) {
  if (peer_close.received) return;
  peer_close.received = true;
  peer_close.final_sequence = close.final_sequence;
  if (close.code == StatusCode::kOk) {
    peer_close.status = {StatusCode::kPeerLeft, "it closed the connection in good order"};
  } else {
    peer_close.status = Status(close.code, std::string(close.message)).reported_by(close.reporter);
  }
  ROCECOLL_CHECK(!peer_close.status.ok());
}

// Call once all frames before the peer's CLOSE were passed on, or the owner wants no more of them.
void Connection::Impl::complete_peer_close() {
  if (!peer_close.received || down || finished) return;
  const bool all_passed_on = reassembly.next_sequence() >= peer_close.final_sequence;
  if (!all_passed_on && !closing.closed) return;
  set_down(peer_close.status);
  ROCECOLL_CHECK(down && !lost_contact());
}

}  // namespace rocecoll
