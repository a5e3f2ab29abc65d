// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/reliability/connection.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/check.h"
#include "transport/datagram/reliability/connection_impl.h"

namespace rocecoll {
namespace {

// The smallest datagram that leaves room for every control sub-frame (frame_wire.h).
constexpr size_t kMinDatagramBytes = 512;
// A packet with a piece of full size keeps room for an acknowledgement of this many ranges.
constexpr size_t kAckRangesBesidePiece = 8;

size_t BaseBytes(const ConnectionOptions& options) {
  return options.min_datagram_bytes == 0 ? options.max_datagram_bytes : options.min_datagram_bytes;
}

// The largest piece of a frame in datagrams of at most this size.
size_t MaxPieceBytes(size_t datagram_bytes) {
  ROCECOLL_CHECK(datagram_bytes >= kMinDatagramBytes);
  const size_t overhead = kPacketHeaderBytes + AckBytes(kAckRangesBesidePiece) + kPingBytes +
                          kSettledBytes + kFrameHeaderBytes;
  return std::min(datagram_bytes - overhead, Connection::kMaxFrameBytes);
}

std::string InSeconds(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g s", Seconds(duration));
  return text;
}

}  // namespace

Connection::Impl::Impl(const ConnectionOptions& options, const LinkId& link, uint64_t local_id,
                       Path& path, Instant now)
    : options(options),
      guaranteed_datagram(std::max(BaseBytes(options), options.guaranteed_datagram_bytes)),
      link(link),
      local_id(local_id),
      path(path),
      handshake(link, local_id, now),
      liveness({options.heartbeat_interval, options.peer_timeout}, now),
      ack_tracker(options.max_ack_delay, static_cast<uint32_t>(options.first_number)),
      sent(options.first_number),
      probe_timeout({options.min_probe_timeout, options.max_probe_timeout, options.max_ack_delay}),
      send_queue(options.frame_queue_bytes, options.first_number),
      writes(options.max_pending_writes, options.first_number),
      reassembly(options.first_number),
      regions(local_id, 1 + (options.first_number >> Regions::kIndexBits)),
      connect_deadline(now + options.connect_timeout),
      peer_marked(static_cast<uint32_t>(options.first_number)) {
  ROCECOLL_CHECK(local_id != 0);
  ROCECOLL_CHECK(BaseBytes(options) >= kMinDatagramBytes);
  path.mtu.open(BaseBytes(options), options.max_datagram_bytes, now);
}

Connection::Impl::~Impl() { forget_in_flight(); }

void Connection::Impl::forget_in_flight() {
  path.congestion->on_discarded(sent.bytes_in_flight());
  if (mtu_probe_in_flight) path.mtu.on_probe_abandoned();
  mtu_probe_in_flight = false;
  sent.clear();
}

bool Connection::Impl::has_content() const {
  return send_queue.has_pending() || writes.has_pending() || close_sendable();
}

Connection::Urgency Connection::Impl::urgency() const {
  if (has_content()) return Urgency::kContent;
  const bool awaited = ping_due || ack_tracker.awaited() || !handshake.established();
  return awaited ? Urgency::kAwaited : Urgency::kMayJoin;
}

bool Connection::Impl::idle() const {
  return !sent.any_in_flight() && !has_content() && !ack_tracker.pending() && !ping_due &&
         (!closing.closed || finished);
}

void Connection::Impl::release_lent_memory() {
  writes.clear();
  regions.clear();
  ROCECOLL_CHECK(writes.empty());
}

// Ends everything but acknowledging: see lost_contact().
void Connection::Impl::set_down(Status why) {
  ROCECOLL_CHECK(!down && !why.ok());
  down = true;
  unsent_when_down = send_queue.unsent();
  release_lent_memory();
  send_queue.clear();
  reassembly.clear();
  ping_due = false;
  probes_due = 0;
  forget_in_flight();
  status = std::move(why);
  if (!closing.closed) events.push_back({Event::Kind::kDown, 0, {}, {}});
}

// Down without a CLOSE of the peer, or it no longer matters whether the peer gets our answer.
void Connection::Impl::lose_contact(Status why) {
  set_down(std::move(why));
  if (closing.closed) finish();
}

void Connection::Impl::finish() {
  ROCECOLL_CHECK(closing.closed);
  finished = true;
  forget_in_flight();
  send_queue.clear();
}

void Connection::Impl::close(Instant now, const Status& why) {
  ROCECOLL_CHECK(!closing.closed);
  closing.closed = true;
  closing.progress_at = now;
  release_lent_memory();
  reassembly.clear();
  events.clear();
  if (down) {
    // The peer may still wait for the acknowledgement of its CLOSE.
    if (!peer_close.received || !ack_tracker.pending()) finish();
    return;
  }
  if (!why.ok()) send_queue.clear();
  closing.close_due = true;
  closing.why = why.reported_by(link.local);
  closing.final_sequence = why.ok() ? send_queue.end_sequence() : 0;
  ROCECOLL_CHECK(writes.empty() && events.empty());
}

// A peer that survives an outage must not lose frames that were accepted for it, and must learn why
// this end gave up: a RESET would later name this process as the one that is gone.
Instant Connection::Impl::linger_until() const {
  const bool tells_why = !down && !closing.why.ok();
  const Duration limit = send_queue.empty() && !tells_why
                             ? options.close_timeout
                             : std::max(options.close_timeout, options.peer_timeout);
  return closing.progress_at + limit;
}

bool Connection::Impl::lingering(Instant now) const {
  if (!closing.closed || finished) return false;
  return closing.why.ok() || now < closing.progress_at + options.close_timeout;
}

void Connection::Impl::maybe_finish_closing() {
  if (!closing.closed || finished) return;
  if (closing.close_acknowledged && send_queue.empty()) finish();
}

void Connection::Impl::on_reset() {
  if (finished || down) return;
  lose_contact(
      {StatusCode::kPeerLost, "it does not know this connection: it has restarted or gone"});
}

void Connection::Impl::on_replaced() {
  if (finished || down) return;
  lose_contact(
      {StatusCode::kPeerLost, "another process answers at its address: it has restarted or gone"});
}

void Connection::Impl::declare_losses(Instant now, Instant seen_at) {
  loss_detector.detect(seen_at, path.rtt, sent,
                       [&](uint64_t, const SentPacket& packet) { on_lost(now, packet); });
  if (path.mtu.check(now)) path.congestion->restart(now);
  if (!down && path.mtu.refuses_base(now, options.peer_timeout)) {
    lose_contact({StatusCode::kPeerLost,
                  "small packets get through, but none of " + std::to_string(path.mtu.base()) +
                      " bytes has for " + InSeconds(options.peer_timeout) +
                      ": an MTU on the way there is below 1280, the least that IPv6 allows"});
  }
}

void Connection::Impl::on_lost(Instant now, const SentPacket& packet) {
  if (packet.mtu_probe) {
    mtu_probe_in_flight = false;
    path.congestion->on_discarded(packet.bytes);
    path.mtu.on_probe_lost(now, packet.bytes);
    return;
  }
  ++lost_packets;
  path.lost_at = now;
  path.mtu.on_lost(packet.bytes, packet.sent_at, path.rtt.smoothed());
  // A packet that was too large for the path says nothing of its queues (RFC 8899 section 3).
  if (path.mtu.carries(packet.bytes)) {
    path.congestion->on_lost(now, packet.bytes, packet.sent_at);
  } else {
    path.congestion->on_discarded(packet.bytes);
  }
  if (packet.frame_count > 0) send_queue.on_lost(packet.frame_first, packet.frame_count);
  if (packet.data_length > 0) {
    writes.on_lost(packet.write_index, packet.data_offset, packet.data_length);
  }
  if (packet.close && !closing.close_acknowledged) closing.close_due = true;
}

// Packets that ask for no acknowledgement are settled once everything before them is. An end that
// only acknowledges sends any number of them, and none of its packets is ever acknowledged.
void Connection::Impl::forget_settled(Instant now) {
  // A late acknowledgement of a packet declared lost comes within a round trip or two.
  if (sent.trim(now - 4 * path.rtt.smoothed() - options.max_ack_delay)) settled_due = true;
}

// Sends something that must be acknowledged at once: new content if there is any, else the oldest
// content in flight once more.
void Connection::Impl::fire_probe(Instant now) {
  ROCECOLL_CHECK(sent.any_in_flight());
  probe_timeout.on_fired(now);
  // If no large packet ever got through, the first silence may mean that none can.
  small_probe = probe_timeout.in_vain() || !path.mtu.carries(datagram_limit());
  probes_due = small_probe ? 2 : 1;
  ping_due = true;
  if (has_content()) return;
  const uint64_t oldest = sent.oldest_in_flight();
  ROCECOLL_CHECK(oldest < sent.next_number());
  for (uint64_t number = oldest, left = probes_due; number < sent.next_number() && left > 0;
       ++number) {
    const SentPacket& packet = sent[number];
    if (packet.state != SentPacket::State::kInFlight) continue;
    if (packet.frame_count > 0) send_queue.on_lost(packet.frame_first, packet.frame_count);
    if (packet.data_length > 0) {
      writes.on_lost(packet.write_index, packet.data_offset, packet.data_length);
    }
    if (packet.close && !closing.close_acknowledged) closing.close_due = true;
    --left;
  }
}

void Connection::Impl::on_unreachable_hint(Instant now, Obstacle obstacle) {
  path.obstacle = obstacle;
  path.obstacle_at = now;
  if (obstacle == Obstacle::kPortRefused && timers_run()) liveness.on_hint(now, path);
}

Status Connection::Impl::silent_status() const {
  std::string text = "nothing heard for " + InSeconds(liveness.longest_silence());
  if (path.current_obstacle() != Obstacle::kNone) {
    text += "; " + std::string(Describe(path.current_obstacle()));
  }
  return {path.ever_heard() ? StatusCode::kPeerLost : StatusCode::kNoContact, std::move(text)};
}

// If a process was never heard, it may have died, or a firewall may reject packets on its behalf.
Status Connection::Impl::refused_status() const {
  if (path.ever_heard()) {
    return {StatusCode::kPeerLost, "no process listens at its address any more"};
  }
  return {StatusCode::kNoContact, std::string(Describe(Obstacle::kPortRefused))};
}

void Connection::Impl::on_timeout(Instant now) {
  if (finished) return;
  if (closing.closed && now >= linger_until()) {
    finish();
    return;
  }
  if (down) return;
  if (!handshake.established() && now >= connect_deadline) {
    lose_contact({StatusCode::kTimeout,
                  "no answer within " + InSeconds(options.connect_timeout) + " of connecting"});
    return;
  }
  switch (liveness.check(now, path)) {
    case Liveness::Verdict::kQuiet:
      break;
    case Liveness::Verdict::kProbe:
      ping_due = true;
      break;
    case Liveness::Verdict::kSilent:
      lose_contact(silent_status());
      return;
    case Liveness::Verdict::kUnreachable:
      lose_contact(refused_status());
      return;
  }
  if (now >= loss_detector.deadline()) declare_losses(now, now);
  if (sent.any_in_flight() && now >= probe_deadline()) fire_probe(now);
}

Instant Connection::Impl::probe_deadline() const {
  ROCECOLL_CHECK(sent.any_in_flight());
  return probe_timeout.deadline(sent.last_tracked_at(), path.rtt, sent.last_asks_at_once());
}

Instant Connection::Impl::next_deadline() const {
  if (finished) return kNever;
  Instant at = closing.closed ? linger_until() : kNever;
  if (handshake.established() && !lost_contact()) at = std::min(at, ack_tracker.deadline());
  if (down) return at;
  at = std::min({at, handshake.deadline(), liveness.deadline(path), loss_detector.deadline()});
  if (!handshake.established()) at = std::min(at, connect_deadline);
  if (handshake.established() && has_content() && window_allows()) {
    at = std::min(at, path.congestion->release_at());
  }
  if (sent.any_in_flight()) at = std::min(at, probe_deadline());
  return at;
}

// -- the public face

Connection::Connection(const ConnectionOptions& options, const LinkId& link, uint64_t local_id,
                       Path& path, Instant now)
    : impl_(std::make_unique<Impl>(options, link, local_id, path, now)) {}

Connection::~Connection() = default;

uint64_t Connection::local_id() const { return impl_->local_id; }
const LinkId& Connection::link() const { return impl_->link; }
bool Connection::established() const { return impl_->handshake.established(); }
bool Connection::down() const { return impl_->down; }
const Status& Connection::status() const { return impl_->status; }
Connection::Urgency Connection::urgency() const { return impl_->urgency(); }
bool Connection::idle() const { return impl_->idle(); }
bool Connection::finished() const { return impl_->finished; }
bool Connection::lingering(Instant now) const { return impl_->lingering(now); }
uint64_t Connection::retransmitted_packets() const { return impl_->lost_packets; }
uint64_t Connection::marked_packets() const { return impl_->marked_packets; }
uint64_t Connection::packets_invalid() const { return impl_->invalid_packets; }
size_t Connection::largest_datagram() const { return impl_->largest_datagram(); }
void Connection::set_receive_window(uint64_t bytes) { impl_->receive_window = bytes; }
Instant Connection::next_deadline() const { return impl_->next_deadline(); }
void Connection::on_timeout(Instant now) { impl_->on_timeout(now); }
void Connection::on_pause(Duration length) {
  impl_->liveness.on_pause(length);
  impl_->closing.progress_at += length;
  impl_->connect_deadline = After(impl_->connect_deadline, length);
}
void Connection::on_not_open(Instant now) { impl_->heard(now); }
LinkContact Connection::contact() const {
  const Path& path = impl_->path;
  return {impl_->liveness.heard_at(path), path.ever_heard(), established(), path.current_obstacle(),
          impl_->options.heartbeat_interval};
}
void Connection::on_replaced(Instant) { impl_->on_replaced(); }
void Connection::on_reset(Instant) { impl_->on_reset(); }
void Connection::close(Instant now, const Status& why) { impl_->close(now, why); }

void Connection::on_datagram(Instant now, Instant arrived_at, std::span<const std::byte> bytes,
                             bool marked) {
  ROCECOLL_CHECK(arrived_at <= now);
  impl_->on_datagram(now, arrived_at, bytes, marked);
}

void Connection::on_unreachable_hint(Instant now, Obstacle obstacle) {
  impl_->on_unreachable_hint(now, obstacle);
}

bool Connection::confirm(Instant now) {
  Impl& impl = *impl_;
  const bool asks = impl.timers_run() && impl.handshake.established() &&
                    now >= impl.shown_at + impl.options.heartbeat_interval;
  if (asks) impl.ping_due = true;
  return asks;
}

bool Connection::send_frame(const FrameBytes& frame) {
  ROCECOLL_CHECK(!impl_->closing.closed);
  ROCECOLL_CHECK(!frame.empty() && frame.size() <= kMaxFrameBytes);
  return impl_->down || impl_->send_queue.push(frame, MaxPieceBytes(impl_->guaranteed_datagram));
}

uint64_t Connection::unsent_frames() const {
  return impl_->down ? impl_->unsent_when_down : impl_->send_queue.unsent();
}

bool Connection::write(const RemoteSlice& to, LocalSlice from, uint32_t token) {
  ROCECOLL_CHECK(!impl_->closing.closed);
  return impl_->down || impl_->writes.push(to, from, token);
}

RemoteSlice Connection::expose(LocalSlice into, uint32_t token) {
  ROCECOLL_CHECK(!impl_->closing.closed);
  if (impl_->down) return {0, into.size, 0};
  return impl_->regions.expose(into, token);
}

void Connection::unexpose(const RemoteSlice& slice) {
  ROCECOLL_CHECK(!impl_->closing.closed);
  if (!impl_->down) impl_->regions.unexpose(slice);
}

bool Connection::poll_transmit(Instant now, std::span<std::byte> space, TxDatagram& out) {
  return impl_->poll_transmit(now, space, out);
}

bool Connection::poll_event(Event& event, LentFrames& lent) {
  Impl& impl = *impl_;
  if (impl.events.empty()) return false;
  ConnectionEvent& next = impl.events.front();
  event.kind = next.kind;
  event.token = next.token;
  event.frame = next.frame;
  if (!next.storage.empty()) lent.push_back(std::move(next.storage));
  impl.events.pop_front();
  ROCECOLL_CHECK(event.kind != Event::Kind::kDown || impl.events.empty());
  return true;
}

}  // namespace rocecoll
