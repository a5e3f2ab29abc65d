// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/datagram_transport.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace rocecoll {
namespace {

// The batches that one poll sends before it looks at what has arrived: about the window of a path.
constexpr int kMaxBatches = 4;
// The longest connect timeout, so that adding it to an instant cannot overflow.
constexpr Duration kMaxTimeout = std::chrono::hours(24 * 365);
// Copying a frame twice costs less than the round trip of a placed write; on loopback also beyond
// this size, which bounds what waits for receives that are not yet posted. Where such frames come
// in pieces of one packet each, both cost about the same at this size on a short path.
constexpr size_t kPreferredEagerBytes = 32 * 1024;

// Adds what a connection counts itself during its life.
void AddCounts(TransportStats& total, const Connection& connection) {
  total.packets_retransmitted += connection.retransmitted_packets();
  total.packets_marked += connection.marked_packets();
  total.packets_dropped_invalid += connection.packets_invalid();
}

}  // namespace

DatagramTransport::DatagramTransport(std::unique_ptr<DatagramPort> port,
                                     const ConnectionOptions& options,
                                     std::optional<Duration> roce_peer_timeout)
    : port_(std::move(port)),
      options_(options),
      roce_peer_timeout_(roce_peer_timeout),
      port_limits_(port_->limits()),
      outgoing_notices_(*port_, stats_),
      batch_(*port_, stats_),
      shares_(port_limits_.receive_buffer_bytes, port_limits_.max_datagram_bytes) {}

DatagramTransport::~DatagramTransport() {
  if (received_count_ > 0) port_->release(std::span(received_).first(received_count_));
  port_->flush();
}

TransportLimits DatagramTransport::limits_towards(std::span<const Address> peers) const {
  const bool whole = !peers.empty() && std::ranges::all_of(peers, [this](const Address& peer) {
    return port_->guaranteed_bytes(peer) >= kPreferredEagerBytes;
  });
  TransportLimits limits;
  limits.max_frame_bytes = Connection::kMaxFrameBytes;
  limits.preferred_eager_bytes = kPreferredEagerBytes;
  if (whole) return limits;
  limits.eager_pieces = 1;
  // Between hosts even many lanes may have little of what the path holds in flight: with 50 ms each
  // way an all_reduce of 4 MiB in nine lanes took 0.77 of the time, with 10 ms 0.87.
  limits.overlapping_lanes = UINT32_MAX;
  return limits;
}

TransportStats DatagramTransport::stats() const {
  TransportStats total = stats_;
  table_.for_each([&total](const Endpoint& endpoint) { AddCounts(total, endpoint.connection); });
  return total;
}

Result<Link*> DatagramTransport::open(const LinkId& id, const Address& peer,
                                      Duration connect_timeout, Instant now) {
  now_ = std::max(now_, now);
  if (table_.find(id) != nullptr) {
    return Status(StatusCode::kInvalidArgument, "the link from rank " + std::to_string(id.local) +
                                                    " to rank " + std::to_string(id.remote) +
                                                    " of this group has been opened before");
  }
  const Result<PeerHandle> handle = port_->add_peer(peer);
  if (!handle.ok()) return handle.status();
  ConnectionOptions options = options_;
  if (roce_peer_timeout_ && peer.roce() != Roce::kNone) options.peer_timeout = *roce_peer_timeout_;
  options.max_datagram_bytes = port_->peer_limit(handle.value());
  options.min_datagram_bytes = port_limits_.min_datagram_bytes;
  options.guaranteed_datagram_bytes = port_->guaranteed_bytes(peer);
  options.connect_timeout = std::min(connect_timeout, kMaxTimeout);
  const bool crosses_network = !port_->on_this_host(handle.value());
  PeerPath& path = crosses_network ? table_.path(handle.value(), CongestionController::kMaxWindow,
                                                 options.congestion)
                                   : table_.path(handle.value(), port_limits_.receive_buffer_bytes,
                                                 CongestionControl::kNone);
  path.name = peer.text();
  Endpoint& endpoint = table_.add(options, id, path, now_);
  endpoint.process = peer.process();
  endpoint.advertised_bytes = shares_.share_bytes(path);
  endpoint.connection.set_receive_window(endpoint.advertised_bytes);
  endpoint.link = std::make_unique<DatagramLink>(*this, endpoint);
  keep_timers(endpoint);
  wants_to_transmit(endpoint);
  return static_cast<Link*>(endpoint.link.get());
}

void DatagramTransport::notify(const Address& peer, std::span<const std::byte> notice) {
  ROCECOLL_CHECK(!notice.empty() && notice.size() <= kMaxNoticeBytes);
  const bool first = outgoing_notices_.empty();
  outgoing_notices_.push(peer, notice);
  if (first) send_waiting();
}

size_t DatagramTransport::poll(Instant now, std::span<Event> events) {
  now_ = std::max(now_, now);
  notice_pause();
  closed_links_.clear();
  transmit(Urgency::kMayJoin);
  // Events of the last batch for which the caller had no room come first. They may lend from the
  // batch, which is therefore kept.
  if (all_events_taken()) {
    release_leases();
    forget_idle_paths();
    receive();
  } else {
    more_to_receive_ = true;
  }
  take_hints();
  run_timers();
  const size_t count = take_events(events);
  // The caller's reaction to events is the next content, which carries the rest along.
  transmit(count > 0 ? Urgency::kContent : Urgency::kMayJoin);
  reap();
  pauses_.expect(now_, next_deadline());
  return count;
}

void DatagramTransport::transmit(Instant now) {
  now_ = std::max(now_, now);
  notice_pause();
  transmit(Urgency::kAwaited);
  reap();
  pauses_.expect(now_, next_deadline());
}

// Call within poll() or transmit().
void DatagramTransport::tell_time() {
  now_ = std::max(now_, port_->clock(now_));
  notice_pause();
}

// What peers sent during a pause of this process lies in the socket's buffer, and processes that
// were paused with it sent nothing: silence may be counted again only from now on. Called within
// poll() whenever the time advances, since a process may be stopped anywhere.
void DatagramTransport::notice_pause() {
  const Duration pause = pauses_.on_call(now_);
  pauses_.expect(now_, now_);
  if (pause == Duration{0}) return;
  table_.for_each_path([&](PeerPath& path) {
    path.path.on_pause(now_, pause);
    for (Endpoint* e = path.endpoints.front(); e != nullptr; e = PathList::next(*e)) {
      e->connection.on_pause(pause);
    }
  });
}

void DatagramTransport::wants_to_transmit(Endpoint& endpoint) {
  if (!TransmitList::linked(endpoint)) transmit_.push_back(endpoint);
}

void DatagramTransport::touch(Endpoint& endpoint) {
  wants_to_transmit(endpoint);
  if (!EventList::linked(endpoint)) events_.push_back(endpoint);
  wake_waiting(endpoint.path);
  note_finished(endpoint);
}

// Anything that happens to a connection may make room in the window that its path's connections
// share. The first in line goes last the next time, since it may take all the room.
void DatagramTransport::wake_waiting(PeerPath& path) {
  if (Endpoint* first = path.waiting.front()) {
    path.waiting.erase(*first);
    path.waiting.push_back(*first);
  }
  while (Endpoint* waiting = path.waiting.front()) {
    path.waiting.erase(*waiting);
    wants_to_transmit(*waiting);
  }
}

void DatagramTransport::run_timers() {
  if (shares_.recount_due(now_)) shares_.recount(now_, port_->limits().receive_buffer_bytes);
  while (deadlines_.next() <= now_) {
    Endpoint& endpoint = *deadlines_.first();
    endpoint.connection.on_timeout(now_);
    keep_timers(endpoint);
    touch(endpoint);
  }
}

// For a connection that is still to be asked what it sends, which may take long while the port is
// full. Its deadline may be that of something to send, which has passed and stays so. Its other
// timers go on: those of all such connections at the same tick.
void DatagramTransport::keep_timers(Endpoint& endpoint) {
  const Instant tick = Instant((now_.time_since_epoch() / SendRetry::kMost + 1) * SendRetry::kMost);
  deadlines_.set(endpoint, std::max(endpoint.connection.next_deadline(), tick));
}

void DatagramTransport::send_waiting() {
  const size_t waiting = outgoing_notices_.size() + batch_.size();
  const bool notices_gone = outgoing_notices_.send();
  const bool all = batch_.send() && notices_gone;
  if (all || outgoing_notices_.size() + batch_.size() < waiting) retry_.on_accepted();
  if (all) return;
  retry_.on_refused(now_);
  if (retry_.poll_worth_telling(now_)) {
    Log(Severity::kWarning,
        "the port " + address().text() +
            " has taken no packet for a second: the network device sends nothing (its link is "
            "down, or flow control has paused it), or others keep it busy");
  }
}

// Sends a batch of each connection in turn. Anything less urgent than `least` stays for a later
// call.
void DatagramTransport::transmit(Urgency least) {
  if (batch_.blocked() || !outgoing_notices_.empty()) send_waiting();
  TransmitList later;
  for (int batches = 0; batches < kMaxBatches && !transmit_.empty() && !batch_.blocked();) {
    Endpoint& endpoint = *transmit_.front();
    transmit_.erase(endpoint);
    if (endpoint.connection.urgency() < least) {
      later.push_back(endpoint);
    } else if (transmit_from(endpoint)) {
      transmit_.push_back(endpoint);
      ++batches;
      send_waiting();
    } else {
      settle(endpoint);
    }
  }
  if (!batch_.blocked()) send_waiting();
  while (Endpoint* endpoint = later.front()) {
    later.erase(*endpoint);
    transmit_.push_back(*endpoint);
  }
}

// False if the connection has nothing more to send now, true if the batch is full.
bool DatagramTransport::transmit_from(Endpoint& endpoint) {
  TxDatagram datagram;
  tell_time();  // round trips begin now, not when this poll began
  update_path(endpoint.path);
  const size_t largest = endpoint.connection.largest_datagram();
  while (batch_.has_room(largest)) {
    if (!endpoint.connection.poll_transmit(now_, batch_.space(), datagram)) return false;
    datagram.to = endpoint.path.peer;
    batch_.add(datagram, &endpoint);
    endpoint.traffic.sent(datagram.header.size() + datagram.payload.size());
  }
  return true;
}

void DatagramTransport::update_path(PeerPath& path) {
  path.path.carrier_checks = port_->checks_payload(path.peer);
  PathMtu& mtu = path.path.mtu;
  const bool raise = now_ >= mtu.raise_at();
  if (raise) port_->look_at_route(path.peer);
  mtu.set_route_limit(port_->peer_limit(path.peer));
  if (raise) mtu.raise(now_);
  tell_of_loss(path);
  if (!mtu.take_news()) return;
  Log(Severity::kWarning,
      "datagrams to " + path.name + " are " + std::to_string(mtu.size()) + " bytes long, not " +
          std::to_string(mtu.limit()) +
          ": larger ones do not get through, although this host's route takes them and no router "
          "says otherwise; see that the MTUs on the way are equal");
}

void DatagramTransport::tell_of_loss(PeerPath& path) {
  CircuitBreaker& breaker = path.path.congestion->breaker();
  if (!breaker.take_news()) return;
  const auto percent = static_cast<int>(std::lround(100 * breaker.lost_share()));
  Log(Severity::kWarning,
      std::to_string(percent) + " % of what was sent to " + path.name +
          " in 3 seconds got lost, so less is sent until most of it arrives: see whether a shaper "
          "or a port on the way drops packets (tc -s qdisc, ethtool -S), or a link is broken");
}

// The connection has sent everything that it may: the next thing to happen is a datagram, a command
// or its deadline.
void DatagramTransport::settle(Endpoint& endpoint) {
  deadlines_.set(endpoint, endpoint.connection.next_deadline());
  if (!endpoint.connection.idle() && !WaitList::linked(endpoint)) {
    endpoint.path.waiting.push_back(endpoint);
  }
  note_finished(endpoint);
}

// Call after anything that may have been the last thing that a closed connection waited for.
void DatagramTransport::note_finished(Endpoint& endpoint) {
  if (!ClosingList::linked(endpoint) || FinishedList::linked(endpoint)) return;
  if (endpoint.connection.finished()) finished_.push_back(endpoint);
}

size_t DatagramTransport::take_events(std::span<Event> events) {
  size_t count = 0;
  while (count < events.size() && next_notice_ < notices_.size()) {
    events[count++] = {Event::Kind::kNotice, nullptr, 0, notices_[next_notice_++], {}};
  }
  while (count < events.size() && !incoming_.empty()) {
    events[count++] = {Event::Kind::kIncoming, nullptr, 0, {}, incoming_.back()};
    incoming_.pop_back();
  }
  while (Endpoint* endpoint = events_.front()) {
    while (count < events.size() && endpoint->connection.poll_event(events[count], lent_frames_)) {
      Event& event = events[count++];
      ROCECOLL_CHECK(endpoint->link != nullptr);  // a closed connection has no events
      event.link = endpoint->link.get();
      // The write's source is about to be lent no longer.
      if (event.kind == Event::Kind::kWritten) batch_.drop_lent(endpoint);
      if (event.kind == Event::Kind::kDown) endpoint->link->status_ = endpoint->connection.status();
    }
    if (count == events.size()) break;  // more may wait
    events_.erase(*endpoint);
  }
  return count;
}

void DatagramTransport::close_link(Endpoint& endpoint, const Status& why) {
  endpoint.connection.close(now_, why);
  batch_.drop_lent(&endpoint);
  port_->flush();
  closed_links_.push_back(std::move(endpoint.link));
  closing_.push_back(endpoint);
  keep_timers(endpoint);
  wants_to_transmit(endpoint);
  wake_waiting(endpoint.path);
  note_finished(endpoint);
}

void DatagramTransport::reap() {
  while (Endpoint* endpoint = finished_.front()) {
    AddCounts(stats_, endpoint->connection);
    deadlines_.erase(*endpoint);
    transmit_.erase(*endpoint);
    events_.erase(*endpoint);
    batch_.drop_lent(endpoint);
    closing_.erase(*endpoint);
    finished_.erase(*endpoint);
    PeerPath& path = endpoint->path;
    shares_.forget(*endpoint);
    table_.remove(*endpoint);
    wake_waiting(path);
  }
}

// Forgets the paths of peers that are gone, except for those that their next group may use.
void DatagramTransport::forget_idle_paths() {
  while (const PeerPath* path = table_.surplus_path()) {
    // The path's last datagrams, or the count of bulk senders, still refer to it.
    if (batch_.size() > 0) return;
    const PeerHandle peer = path->peer;
    table_.remove_path(peer);
    port_->remove_peer(peer);
  }
}

bool DatagramTransport::lingering() const {
  if (!outgoing_notices_.empty()) return true;
  for (const Endpoint* e = closing_.front(); e != nullptr; e = ClosingList::next(*e)) {
    if (e->connection.lingering(now_)) return true;
  }
  return false;
}

Instant DatagramTransport::next_deadline() const {
  const bool work_left = more_to_receive_ || !all_events_taken();
  if (work_left || (!transmit_.empty() && !batch_.blocked())) return now_;
  return std::min({deadlines_.next(), port_->next_deadline(), retry_.at()});
}

}  // namespace rocecoll
