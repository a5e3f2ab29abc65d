// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/check.h"
#include "transport/datagram/reliability/connection_impl.h"
#include "transport/datagram/reliability/packet_wire.h"

namespace rocecoll {
namespace {

// The least room in a packet that is filled with DATA: smaller parts cost more than they carry.
constexpr size_t kMinDataBytes = 128;
// From this size on a frame that ends its packet is sent out of the queue; below it a copy costs
// less than a further slice of memory.
constexpr size_t kLendFromBytes = 4096;
// How many acknowledgements a full window asks for, if its size alone does not cause them: a sender
// whose whole window is acknowledged at once also sends it at once (draft-ietf-quic-ack-frequency).
constexpr uint64_t kPingsPerWindow = 4;
constexpr uint64_t kDatagramsPerWindow = 8;

}  // namespace

// The size of full datagrams.
size_t Connection::Impl::datagram_limit() const {
  const uint64_t part = peer_window / kDatagramsPerWindow;
  return std::min<uint64_t>(path.mtu.size(), std::max<uint64_t>(part, kModestDatagramBytes));
}

// A connection with nothing in flight may always send one packet, whatever window is advertised:
// the answer updates the window. It may have two in flight beyond the path's window, which other
// connections may have used up.
bool Connection::Impl::window_allows() const {
  const uint64_t own = sent.bytes_in_flight();
  const uint64_t size = datagram_limit();
  if (!sent.has_room_for_content()) return false;
  if (own == 0) return true;
  if (own + size > peer_window) return false;
  return own < 2 * size || path.congestion->has_room(size);
}

// Windows and pacer do not hold probes back.
bool Connection::Impl::may_send_content(Instant now) const {
  return probes_due > 0 || (path.congestion->paced(now) && window_allows());
}

// Whether the packet being built is one of the last before a window closes, so that the usual delay
// of its acknowledgement would stall the sender. The path's window, which stays small as long as
// only small packets are sent, stalls no connection with less than two full datagrams in flight.
bool Connection::Impl::window_nearly_used() const {
  const uint64_t size = datagram_limit();
  const uint64_t own = sent.bytes_in_flight();
  if (own + 2 * size > peer_window) return true;
  if (own >= size && !path.congestion->has_room(2 * size)) return true;
  const uint64_t window = std::min(peer_window, std::max(path.congestion->window(), 2 * size));
  const uint64_t part = window / kPingsPerWindow;
  return part < AckTracker::kBytesPerAck && bytes_since_ping >= part;
}

bool Connection::Impl::poll_transmit(Instant now, std::span<std::byte> space, TxDatagram& out) {
  ROCECOLL_CHECK(space.size() >= largest_datagram());
  if (finished || lost_contact()) return false;
  forget_settled(now);
  if (sent.full()) return false;
  if (!down && handshake.init_due(now)) {
    build_init(now, space, out);
    return true;
  }
  if (!handshake.established()) return false;
  if (mtu_probe_due()) {
    build_mtu_probe(now, space, out);
    return true;
  }
  const bool content = has_content();
  const bool with_content = content && may_send_content(now);
  if (content && !with_content && sent.bytes_in_flight() + datagram_limit() <= peer_window) {
    path.congestion->on_held_back(now);
  }
  if (!with_content && !ping_due && !ack_tracker.due(now)) return false;
  build_packet(now, with_content, space, out);
  if (down && closing.closed && !ack_tracker.pending()) finish();
  return true;
}

void Connection::Impl::build_init(Instant now, std::span<std::byte> space, TxDatagram& out) {
  const InitBody init = handshake.make_init();
  ROCECOLL_CHECK(init.source_id == local_id);
  const uint64_t number = sent.next_number();
  ByteWriter writer(space.subspan(WritePacketHeader(space, {PacketType::kInit, 0, number})));
  init.link.group.store(writer);
  writer.Write(init.link.local);
  writer.Write(init.link.remote);
  writer.Write(init.source_id);
  writer.Write(init.destination_id);
  ROCECOLL_CHECK(writer.size() == InitBody::kWireBytes);
  WriteInitParameters(writer, {receive_window, static_cast<uint32_t>(path.mtu.route_limit())});
  const auto datagram = space.first(kPacketHeaderBytes + writer.size());
  SealPacket(datagram, {});
  SentPacket packet;
  packet.sent_at = now;
  sent.add(packet);
  handshake.on_init_sent(now);
  out.header = datagram;
  out.payload = {};
  out.alone = false;
}

// Only a path in use is measured. No window holds a probe back, since there is only one at a time.
bool Connection::Impl::mtu_probe_due() const {
  const bool used = sent.any_in_flight() || has_content();
  return used && path.mtu.probe_due() > 0 && !mtu_probe_in_flight && !down && !closing.closed &&
         sent.has_room_for_content();
}

void Connection::Impl::build_mtu_probe(Instant now, std::span<std::byte> space, TxDatagram& out) {
  const auto datagram = space.first(path.mtu.probe_due());
  const uint64_t number = sent.next_number();
  ByteWriter body(datagram.subspan(
      WritePacketHeader(datagram, {PacketType::kPacket, handshake.peer_id(), number})));
  WritePing(body);
  WritePadding(body, body.room());
  SealPacket(datagram, {});
  SentPacket packet;
  packet.sent_at = now;
  packet.bytes = static_cast<uint32_t>(datagram.size());
  packet.state = SentPacket::State::kInFlight;
  packet.mtu_probe = packet.asks_at_once = true;
  sent.add(packet);
  mtu_probe_in_flight = true;
  path.congestion->on_probe_sent(packet.bytes);
  path.mtu.on_probe_sent(datagram.size());
  out.header = datagram;
  out.payload = {};
  out.alone = true;
}

// The least bytes that the content needs, which the acknowledgement before it leaves free.
size_t Connection::Impl::content_reserve() const {
  size_t reserve = kPingBytes + (settled_due ? kSettledBytes : 0);
  if (close_sendable()) reserve += kCloseHeaderBytes + closing.message().size();
  if (send_queue.has_pending()) {
    return reserve + kFrameHeaderBytes + send_queue.bytes(send_queue.next_pending()).size();
  }
  return writes.has_pending() ? reserve + kDataHeaderBytes + 1 : reserve;
}

void Connection::Impl::build_packet(Instant now, bool with_content, std::span<std::byte> space,
                                    TxDatagram& out) {
  ROCECOLL_CHECK(handshake.established());
  SentPacket packet;
  packet.sent_at = now;
  const uint64_t number = sent.next_number();
  const size_t header =
      WritePacketHeader(space, {PacketType::kPacket, handshake.peer_id(), number});
  const size_t reserve = with_content ? content_reserve() : kPingBytes;
  // A path that drops large packets lets the second of two probes through.
  const bool probe = probes_due > 0;
  const bool small = probes_due == 1 && small_probe;
  const size_t size = small ? std::min(datagram_limit(), path.mtu.base()) : datagram_limit();
  // A piece may need more than the path's size: see DatagramPort's guaranteed_datagram_bytes.
  const size_t limit = std::min(largest_datagram(), std::max(size, header + AckBytes(1) + reserve));
  ByteWriter body(space.subspan(header, limit - header));
  write_ack(now, reserve, body);
  std::span<const std::byte> payload;
  bool ping = ping_due || probe;
  const bool elicits = ping || with_content;
  if (with_content) {
    ping = ping || window_nearly_used();
    if (settled_due) WriteSettled(body, sent.settled_below());
    settled_due = false;
    if (send_queue.has_pending()) payload = write_frames(now, ping, body, packet);
    if (close_sendable()) write_close(body, packet);
    if (payload.empty()) payload = write_data(ping, body, packet);
  }
  if (payload.empty()) {
    ping = ping || (with_content && asks_as_last(now));
    if (ping) WritePing(body);
  }
  if (ping) ping_due = false;
  if (probe) --probes_due;
  // The second probe is useful even without content: it may get through where the first did not.
  if (probes_due > 0 && !has_content()) ping_due = true;
  if (payload.empty()) {
    pad_to_run(packet, header, body);
  } else {
    run_bytes = 0;
  }
  const auto control = space.first(header + body.size());
  ROCECOLL_CHECK(control.size() + payload.size() <= limit);
  if (path.carrier_checks) {
    SealHeaders(control);
  } else {
    SealPacket(control, payload);
  }
  packet.bytes = static_cast<uint32_t>(control.size() + payload.size());
  packet.state = elicits ? SentPacket::State::kInFlight : SentPacket::State::kNotTracked;
  packet.asks_at_once = packet.asks_at_once || packet.close || ping;
  if (elicits) packet.stamp = path.congestion->on_sent(now, packet.bytes);
  if (elicits) bytes_since_ping = packet.asks_at_once ? 0 : bytes_since_ping + packet.bytes;
  sent.add(packet);
  out.header = control;
  out.payload = payload;
  out.alone = probe || !path.mtu.carries(packet.bytes);
  out.payload_is_queued = packet.data_length == 0;
}

// Where packets get lost, the last packet asks for an immediate acknowledgement, so that its loss
// shows sooner.
bool Connection::Impl::asks_as_last(Instant now) const { return !has_content() && path.loses(now); }

// Every packet that is sent anyway carries an acknowledgement if there is news. Probes always do:
// the packet that carried the news before may have been lost with all large packets.
void Connection::Impl::write_ack(Instant now, size_t reserve, ByteWriter& body) {
  const bool wanted = ack_tracker.pending() || closing.close_due || probes_due > 0;
  if (!wanted || !ack_tracker.any() || body.room() < AckBytes(1) + reserve) return;
  const size_t ranges = 1 + (body.room() - AckBytes(1) - reserve) / (AckBytes(2) - AckBytes(1));
  ack_tracker.build(now, std::min(ranges, kMaxAckRanges), ack);
  ROCECOLL_CHECK(AckBytes(ack.range_count) + reserve <= body.room());
  ack.receive_window = receive_window;
  WriteAck(body, ack);
  ack_tracker.on_ack_sent();
}

// Writes as many frames with successive numbers as fit. Returns the bytes of the last one if they
// are lent; then nothing may follow, and the ping has been written.
std::span<const std::byte> Connection::Impl::write_frames(Instant now, bool& ping, ByteWriter& body,
                                                          SentPacket& packet) {
  ROCECOLL_CHECK(send_queue.has_pending());
  packet.frame_first = send_queue.next_pending();
  const auto next_fits = [&](size_t room) {
    return send_queue.has_pending() && packet.frame_count < UINT16_MAX &&
           send_queue.next_pending() == packet.frame_first + packet.frame_count &&
           kFrameHeaderBytes + send_queue.bytes(send_queue.next_pending()).size() + kPingBytes <=
               room;
  };
  while (next_fits(body.room())) {
    const uint64_t sequence = send_queue.next_pending();
    const FrameField frame{sequence, send_queue.bytes(sequence), send_queue.ends_frame(sequence)};
    send_queue.mark_sent(sequence);
    ++packet.frame_count;
    const size_t bytes = kFrameHeaderBytes + frame.bytes.size();
    if (frame.bytes.size() >= kLendFromBytes && !closing.close_due &&
        !next_fits(body.room() - bytes)) {
      ping = ping || asks_as_last(now);
      if (ping) WritePing(body);
      WriteFrameHeader(body, frame);
      return frame.bytes;
    }
    WriteFrame(body, frame);
  }
  ROCECOLL_CHECK(packet.frame_count > 0);
  return {};
}

// The kernel cuts a run of datagrams of equal size from one message. If an acknowledgement precedes
// the first piece of a frame, the following pieces have padding in its place.
void Connection::Impl::pad_to_run(const SentPacket& packet, size_t header, ByteWriter& body) {
  const bool goes_on =
      packet.frame_count > 0 && !send_queue.ends_frame(packet.frame_first + packet.frame_count - 1);
  const size_t size = header + body.size();
  const bool shorter = goes_on && size < run_bytes && run_bytes - size <= AckBytes(1);
  if (shorter && run_bytes - size <= body.room()) WritePadding(body, run_bytes - size);
  run_bytes = goes_on ? header + body.size() : 0;
}

void Connection::Impl::write_close(ByteWriter& body, SentPacket& packet) {
  ROCECOLL_CHECK(closing.close_due);
  if (kCloseHeaderBytes + closing.message().size() + kPingBytes > body.room()) return;
  WriteClose(body, {closing.why.code(), closing.why.reporter().value_or(0), closing.final_sequence,
                    closing.message()});
  closing.close_due = false;
  packet.close = true;
}

// Fills the rest of the datagram from the next write. A ping goes before DATA, which must be last.
// The last part of a write carries one, so that Written does not have to wait.
std::span<const std::byte> Connection::Impl::write_data(bool ping, ByteWriter& body,
                                                        SentPacket& packet) {
  const bool alone = packet.frame_count == 0 && !packet.close;
  const size_t least = kPingBytes + kDataHeaderBytes + (alone ? 1 : kMinDataBytes);
  if (!writes.has_pending() || body.room() < least) return {};
  const auto chunk = writes.take(body.room() - kPingBytes - kDataHeaderBytes);
  ROCECOLL_CHECK(!chunk.payload.empty());
  packet.asks_at_once = ping || chunk.last;
  if (packet.asks_at_once) WritePing(body);
  WriteDataHeader(body, {chunk.region, chunk.key, chunk.offset, chunk.payload});
  packet.write_index = chunk.write;
  packet.data_offset = chunk.offset;
  packet.data_length = static_cast<uint32_t>(chunk.payload.size());
  return chunk.payload;
}

}  // namespace rocecoll
