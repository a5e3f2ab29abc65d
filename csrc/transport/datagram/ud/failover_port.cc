// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/ud/failover_port.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "transport/datagram/reliability/packet_wire.h"

namespace rocecoll {
namespace {

// Bounds the rounds of one receive(): packets for the port itself could otherwise keep it for ever.
constexpr int kMaxRounds = 4;

// RESET and NOTICE may go to any process: only a connection's packets are worth finding a path for.
bool IsOfConnection(const TxDatagram& datagram) {
  if (datagram.header.size() < kPacketHeaderBytes) return false;
  const auto type = static_cast<PacketType>(datagram.header[1]);
  return type == PacketType::kInit || type == PacketType::kPacket;
}

}  // namespace

size_t FailoverPort::AddressHash::operator()(const Address& address) const {
  const auto bytes = address.bytes();
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::unique_ptr<FailoverPort> FailoverPort::Make(std::unique_ptr<DatagramPort> udp,
                                                 std::unique_ptr<DatagramPort> ud,
                                                 const FailoverOptions& options, Clock clock) {
  if (ud && ud->limits().max_datagram_bytes < kUdDatagramBytes) {
    Log(Severity::kWarning, "the RoCE port " + ud->address().text() + " has an MTU of " +
                                std::to_string(ud->limits().max_datagram_bytes) +
                                " bytes and is not used; raise its interface's MTU to 1500 or "
                                "more");
    ud.reset();
  }
  return std::unique_ptr<FailoverPort>(
      new FailoverPort(std::move(udp), std::move(ud), options, std::move(clock)));
}

FailoverPort::FailoverPort(std::unique_ptr<DatagramPort> udp, std::unique_ptr<DatagramPort> ud,
                           const FailoverOptions& options, Clock clock)
    : udp_(std::move(udp)),
      ud_(std::move(ud)),
      options_(options),
      clock_(std::move(clock)),
      own_ud_bytes_(ud_ ? ud_->limits().max_datagram_bytes : 0),
      ud_burst_(ud_ ? std::max<size_t>(ud_->limits().max_burst, 1) : 0) {}

WaitHandle FailoverPort::wait_handle() {
  const WaitHandle udp = udp_->wait_handle();
  return ud_ == nullptr ? udp : udp.joined(ud_->wait_handle());
}

PortLimits FailoverPort::limits() const {
  PortLimits limits = udp_->limits();
  limits.min_datagram_bytes = std::min(limits.min_datagram_bytes, kUdDatagramBytes);
  limits.guaranteed_datagram_bytes = std::min(limits.guaranteed_datagram_bytes, kUdDatagramBytes);
  if (!ud_) return limits;
  const PortLimits ud = ud_->limits();
  limits.max_datagram_bytes = std::max(limits.max_datagram_bytes, own_ud_bytes_);
  limits.max_burst = std::max(limits.max_burst, ud.max_burst);
  limits.receive_buffer_bytes = std::min(limits.receive_buffer_bytes, ud.receive_buffer_bytes);
  return limits;
}

Result<PeerHandle> FailoverPort::add_peer(const Address& address) {
  const auto known = by_udp_.find(address);
  if (known != by_udp_.end()) return known->second->udp;
  const Result<PeerHandle> handle = udp_->add_peer(address);
  if (!handle.ok()) return handle;
  std::unique_ptr<Peer>& added = peers_[handle.value().index];
  if (!added) added = std::make_unique<Peer>(handle.value(), address, options_.failover);
  by_udp_.emplace(address, added.get());
  return handle;
}

void FailoverPort::remove_peer(PeerHandle handle) {
  Peer& gone = peer(handle);
  forget_ud_address(gone);
  by_udp_.erase(gone.udp_address);
  deadlines_.erase(gone);
  std::erase(starting_, &gone);
  std::erase(unheard_, &gone);
  last_sent_to_ = nullptr;
  peers_.erase(handle.index);
  udp_->remove_peer(handle);
}

// A process that is known by two UDP addresses has only one UD address.
void FailoverPort::forget_ud_address(Peer& peer) {
  if (peer.ud_address.empty()) return;
  const auto other = std::ranges::find_if(peers_, [&peer](const auto& item) {
    return item.second.get() != &peer && item.second->ud_address == peer.ud_address;
  });
  if (other == peers_.end()) {
    by_ud_.erase(peer.ud_address);
    ud_->remove_peer(peer.ud);
  } else {
    by_ud_[peer.ud_address] = other->second.get();
  }
  last_heard_ = nullptr;
  peer.ud_address = {};
}

FailoverPort::Peer& FailoverPort::peer(PeerHandle handle) const {
  if (last_sent_to_ == nullptr || last_sent_to_->udp.index != handle.index) {
    const auto found = peers_.find(handle.index);
    ROCECOLL_CHECK(found != peers_.end());
    last_sent_to_ = found->second.get();
  }
  return *last_sent_to_;
}

bool FailoverPort::checks_payload(PeerHandle handle) const {
  const Peer& to = peer(handle);
  return over_ud(to) ? ud_->checks_payload(to.ud) : udp_->checks_payload(to.udp);
}

bool FailoverPort::uses_ud(PeerHandle handle) const { return peer(handle).choice.uses_ud(); }

// With failover, what was built for UD may have to go over UDP.
size_t FailoverPort::ud_limit(const Peer& peer) const {
  const size_t bytes = peer.ud_bytes == 0 ? own_ud_bytes_ : peer.ud_bytes;
  return options_.failover ? std::min(bytes, udp_->peer_limit(peer.udp)) : bytes;
}

size_t FailoverPort::peer_limit(PeerHandle handle) const {
  const Peer& to = peer(handle);
  return over_ud(to) ? ud_limit(to) : udp_->peer_limit(handle);
}

FailoverPort::Way FailoverPort::choose(const TxDatagram& datagram) {
  Peer& to = peer(datagram.to);
  if (!to.choice.uses_ud()) {
    if (!to.choice.idle()) {
      to.choice.on_traffic();
    } else if (ud_watch_.health().ok() && !to.starting && IsOfConnection(datagram)) {
      to.starting = true;
      starting_.push_back(&to);
    }
    return options_.failover ? Way::kUdp : Way::kNowhere;
  }
  to.choice.on_traffic();
  // It was built before the pair changed over.
  if (datagram.header.size() + datagram.payload.size() > to.ud_bytes) {
    return options_.failover ? Way::kUdp : Way::kNowhere;
  }
  if (to.choice.on_sent_over_ud()) unheard_.push_back(&to);
  return Way::kUd;
}

size_t FailoverPort::send(std::span<const TxDatagram> batch) {
  if (!ud_) return udp_->send(batch);
  size_t sent = 0;
  while (sent < batch.size()) {
    const Way way = choose(batch[sent]);
    size_t end = sent + 1;
    while (end < batch.size() && choose(batch[end]) == way) ++end;
    const auto run = batch.subspan(sent, end - sent);
    size_t accepted = run.size();
    if (way == Way::kUdp) {
      accepted = send_over_udp(run);
      counts_.datagrams_over_udp += accepted;
    } else if (way == Way::kUd) {
      accepted = send_over_ud(run);
      counts_.datagrams_over_ud += accepted;
    } else {
      counts_.datagrams_nowhere += accepted;
    }
    sent += accepted;
    if (accepted < run.size()) break;
  }
  return sent;
}

bool FailoverPort::send_to(const Address& address, std::span<const std::byte> datagram) {
  const auto known = by_udp_.find(address);
  if (known == by_udp_.end()) return udp_->send_to(address, datagram);
  const TxDatagram sent{known->second->udp, datagram, {}};
  return send({&sent, 1}) == 1;
}

// Packets that were built before the pair changed over rely on the UD device, which checks what it
// delivers: they are sealed anew, as a whole.
size_t FailoverPort::send_over_udp(std::span<const TxDatagram> run) {
  const auto relies_on_ud = [this](const TxDatagram& datagram) {
    return IsOfConnection(datagram) && HasSealedHeaders(datagram.header) &&
           !udp_->checks_payload(datagram.to);
  };
  if (std::ranges::none_of(run, relies_on_ud)) return udp_->send(run);
  translated_.assign(run.begin(), run.end());
  sealed_anew_.clear();
  for (TxDatagram& datagram : translated_) {
    if (!relies_on_ud(datagram)) continue;
    std::vector<std::byte>& header =
        sealed_anew_.emplace_back(datagram.header.begin(), datagram.header.end());
    SealPacket(header, datagram.payload);
    datagram.header = header;
  }
  return udp_->send(translated_);
}

size_t FailoverPort::send_over_ud(std::span<const TxDatagram> run) {
  translated_.assign(run.begin(), run.end());
  for (TxDatagram& datagram : translated_) datagram.to = peer(datagram.to).ud;
  // UDP may take more datagrams of a batch at once than UD does.
  size_t sent = 0;
  while (sent < translated_.size()) {
    const size_t burst = std::min(translated_.size() - sent, ud_burst_);
    const size_t accepted = ud_->send(std::span(translated_).subspan(sent, burst));
    sent += accepted;
    if (accepted < burst) break;
  }
  return sent;
}

size_t FailoverPort::receive(std::span<RxDatagram> batch) {
  now_ = clock_();
  const bool ud_is_busy = ud_ != nullptr && now_ < ud_heard_ + kUdBusy;
  udp_skipped_ = ud_is_busy && !udp_more_ && now_ < udp_at_;
  std::array<bool, 2> more{!udp_skipped_, ud_ != nullptr};  // of UDP, of UD
  bool ud = ud_first_ || udp_skipped_;
  ud_first_ = !ud_first_;
  size_t count = 0;
  for (int round = 0; round < kMaxRounds && count < batch.size(); ++round) {
    if (!more[ud]) ud = !ud;
    if (!more[ud]) break;
    const size_t room = batch.size() - count;
    const size_t share = more[!ud] ? (room + 1) / 2 : room;
    const size_t before = count;
    count += receive_from(ud, batch.subspan(count, share), more[ud]);
    if (ud && count > before) ud_heard_ = now_;
    if (!ud) udp_at_ = now_ + kUdpInterval;
    ud = !ud;
  }
  udp_more_ = more[false];
  more_waits_ = more[false] || more[true];
  if (ud_) {
    check_health();
    take_changes();
    run_timers(!more[true]);
  }
  return count;
}

size_t FailoverPort::receive_from(bool ud, std::span<RxDatagram> batch, bool& more) {
  DatagramPort& port = ud ? *ud_ : *udp_;
  const size_t count = port.receive(batch);
  more = count == batch.size();
  size_t kept = 0;
  for (RxDatagram& datagram : batch.first(count)) {
    ROCECOLL_CHECK(datagram.lease < kUdLease);
    if (consume(ud, datagram)) {
      port.release({&datagram, 1});
      continue;
    }
    if (ud) datagram.lease |= kUdLease;
    batch[kept++] = datagram;
  }
  return kept;
}

void FailoverPort::release(std::span<const RxDatagram> batch) {
  const auto is_ud = [](const RxDatagram& datagram) { return (datagram.lease & kUdLease) != 0; };
  while (!batch.empty()) {
    const bool ud = is_ud(batch.front());
    const auto end = std::ranges::find_if(
        batch, [&](const RxDatagram& datagram) { return is_ud(datagram) != ud; });
    const auto run = batch.first(static_cast<size_t>(end - batch.begin()));
    batch = batch.subspan(run.size());
    if (!ud) {
      udp_->release(run);
      continue;
    }
    released_.assign(run.begin(), run.end());
    for (RxDatagram& datagram : released_) datagram.lease &= ~kUdLease;
    ud_->release(released_);
  }
}

void FailoverPort::check_health() {
  if (!ud_watch_.due(now_) || !ud_watch_.look(now_, ud_->health())) return;
  const Status& health = ud_watch_.health();
  size_t affected = 0;
  for (const auto& [index, peer] : peers_) {
    if (peer->choice.uses_ud()) ++affected;
    if (health.ok()) {
      peer->choice.on_own_port_up(now_);
    } else {
      peer->choice.on_own_port_down();
    }
    service(*peer);
  }
  const std::string port = "the RoCE port " + ud_->address().text();
  if (health.ok()) {
    Log(Severity::kInfo, port + " is up again");
  } else if (options_.failover) {
    Log(Severity::kWarning, port + " is down (" + health.message() + "); the traffic with " +
                                std::to_string(affected) + " processes goes on over UDP");
  } else {
    Log(Severity::kWarning, port + " is down (" + health.message() + "), and failover is off");
  }
}

void FailoverPort::take_changes() {
  for (Peer* peer : starting_) {
    peer->starting = false;
    peer->choice.start(now_);
    service(*peer);
  }
  starting_.clear();
  for (Peer* peer : unheard_) {
    peer->choice.on_unheard(now_);
    service(*peer);
  }
  unheard_.clear();
}

void FailoverPort::run_timers(bool drained) {
  while (deadlines_.next() <= now_) {
    due_.push_back(deadlines_.first());
    deadlines_.erase(*due_.back());  // service() puts it back
  }
  for (Peer* peer : due_) {
    if (peer->choice.proving() && ud_->seeks_way(peer->ud)) {
      peer->choice.on_way_unknown(now_);
    } else {
      peer->choice.on_timer(now_, drained);
    }
    service(*peer);
  }
  due_.clear();
}

// Does what the peer's PathChoice asks for.
void FailoverPort::service(Peer& peer) {
  uint64_t nonce = 0;
  bool full = false;
  if (peer.choice.poll_renewal() && !peer.ud_address.empty()) ud_->renew_way(peer.ud);
  if (peer.choice.poll_hello(nonce)) ask(peer, nonce);
  if (peer.choice.poll_probe(nonce, full)) send_probe(peer, nonce, full);
  if (const auto news = peer.choice.poll_news()) {
    counts_.proven += *news == PathNews::kProven;
    counts_.failed += *news == PathNews::kFailed;
    report(peer, *news);
  }
  deadlines_.set(peer, peer.choice.deadline());
}

bool FailoverPort::poll_unreachable(UnreachableHint& hint) {
  return udp_->poll_unreachable(hint);  // for UD, probes tell the same
}

void FailoverPort::flush() {
  udp_->flush();
  if (ud_) ud_->flush();
}

bool FailoverPort::arm() {
  const bool udp = udp_->arm();
  const bool ud = !ud_ || ud_->arm();
  // What ends the sleep may come over UDP.
  udp_at_ = {};
  udp_skipped_ = false;
  return udp && ud && !more_waits_ && starting_.empty();
}

Instant FailoverPort::next_deadline() const {
  if (more_waits_ || !starting_.empty()) return now_;
  Instant at = std::min(udp_->next_deadline(), deadlines_.next());
  if (!ud_) return at;
  if (udp_skipped_) at = std::min(at, udp_at_);
  // The time of what was just sent is not known yet, but it will be looked at by then.
  if (!unheard_.empty()) at = std::min(at, now_ + PathChoice::kSilence);
  return std::min(at, ud_->next_deadline());
}

}  // namespace rocecoll
