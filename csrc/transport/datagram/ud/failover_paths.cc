// SPDX-License-Identifier: Apache-2.0
// How a FailoverPort sends and processes HELLO and PROBE.
#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "transport/datagram/ud/failover_port.h"

namespace rocecoll {

// True if the datagram is not for the owner. Otherwise sets `from` to the peer's UDP address.
bool FailoverPort::consume(bool ud, RxDatagram& datagram) {
  if (!ud) {
    if (!IsPathPacket(datagram.bytes)) return false;
    on_hello(datagram);
    return true;
  }
  if (last_heard_ == nullptr || last_heard_->ud_address != *datagram.from) {
    const auto found = by_ud_.find(*datagram.from);
    if (found == by_ud_.end()) {
      ++counts_.ignored;
      return true;
    }
    last_heard_ = found->second;
  }
  last_heard_->choice.on_heard_over_ud();
  if (IsPathPacket(datagram.bytes)) {
    on_probe(*last_heard_, datagram);
    return true;
  }
  datagram.from = &last_heard_->udp_address;
  return false;
}

void FailoverPort::on_hello(const RxDatagram& datagram) {
  const auto hello = ParseHello(datagram.bytes);
  if (!hello) {
    ++counts_.ignored;
  } else if (hello->message == PathMessage::kQuestion) {
    on_hello_question(*datagram.from, *hello);
  } else {
    on_hello_answer(*hello);
  }
}

// Keeps no state for the asker.
void FailoverPort::on_hello_question(const Address& from, const PathHello& question) {
  // Finds the asker by its UD address: UDP may know it by another address than its packets come
  // from.
  const auto learned = by_ud_.find(question.address);
  const auto known = by_udp_.find(from);
  const bool knows_asker = learned != by_ud_.end();
  if (!answers_.allow(now_)) {
    ++counts_.ignored;
    return;
  }
  PathHello answer = own_hello(PathMessage::kAnswer, knows_asker);
  answer.nonce = question.nonce;
  answer.mark = question.mark;
  std::array<std::byte, PathHello::kWireBytes> bytes;
  WriteHello(bytes, answer);
  udp_->send_to(from, bytes);  // if this is lost, it is asked again
  if (!ud_ || (!knows_asker && known == by_udp_.end())) return;
  Peer& peer = knows_asker ? *learned->second : *known->second;
  peer.choice.on_question(now_, question.knows_receiver);
  service(peer);
}

void FailoverPort::on_hello_answer(const PathHello& answer) {
  const auto found =
      answer.mark > UINT32_MAX ? peers_.end() : peers_.find(static_cast<uint32_t>(answer.mark));
  if (found == peers_.end() || !found->second->choice.awaits_hello(answer.nonce)) {
    ++counts_.ignored;
    return;
  }
  Peer& peer = *found->second;
  const Address before = peer.ud_address;
  const bool down = answer.port == PathHello::Port::kDown;
  peer.no_ud_text = down ? std::string() : learn_ud_address(peer, answer);
  if (!peer.no_ud_text.empty()) {
    peer.choice.on_no_port(now_);
  } else {
    peer.choice.on_answer(now_, answer, peer.ud_address != before);
  }
  service(peer);
}

// Returns why the address cannot be used; empty if it can.
std::string FailoverPort::learn_ud_address(Peer& peer, const PathHello& answer) {
  if (answer.port == PathHello::Port::kNone) return "its process has no RoCE port";
  if (answer.datagram_bytes < kUdDatagramBytes) {
    return "the MTU of its RoCE port is only " + std::to_string(answer.datagram_bytes) + " bytes";
  }
  if (peer.ud_address != answer.address) {
    const Address address(answer.address.bytes(), peer.udp_address.text() + " over RoCE");
    const Result<PeerHandle> handle = ud_->add_peer(address);
    if (!handle.ok()) return handle.status().message();
    forget_ud_address(peer);
    by_ud_[address] = &peer;
    last_heard_ = nullptr;
    peer.ud_address = address;
    peer.ud = handle.value();
  }
  const size_t limit = ud_->peer_limit(peer.ud);
  if (limit < kUdDatagramBytes)
    return "the path to it takes only " + std::to_string(limit) + " bytes";
  peer.ud_bytes = std::min<size_t>(answer.datagram_bytes, limit);
  return {};
}

void FailoverPort::on_probe(Peer& from, const RxDatagram& datagram) {
  const auto probe = ParseProbe(datagram.bytes);
  if (!probe) {
    ++counts_.ignored;
    return;
  }
  if (probe->message == PathMessage::kQuestion) {
    std::array<std::byte, PathProbe::kWireBytes> bytes;
    WriteProbe(bytes, {PathMessage::kAnswer, probe->nonce});
    const TxDatagram answer{from.ud, bytes, {}};
    ud_->send({&answer, 1});
    from.choice.on_probe_question(now_);
  } else if (!from.choice.on_probe_answer(now_, probe->nonce)) {
    ++counts_.ignored;
  }
  service(from);
}

PathHello FailoverPort::own_hello(PathMessage message, bool knows_receiver) const {
  PathHello hello;
  hello.message = message;
  if (ud_) hello.port = ud_watch_.health().ok() ? PathHello::Port::kUsable : PathHello::Port::kDown;
  hello.knows_receiver = knows_receiver;
  if (ud_) hello.address = ud_->address();
  hello.datagram_bytes = static_cast<uint32_t>(own_ud_bytes_);
  return hello;
}

void FailoverPort::ask(Peer& peer, uint64_t nonce) {
  PathHello question = own_hello(PathMessage::kQuestion, peer.ud_bytes > 0);
  question.nonce = nonce;
  question.mark = peer.udp.index;
  std::array<std::byte, PathHello::kWireBytes> bytes;
  WriteHello(bytes, question);
  const TxDatagram datagram{peer.udp, bytes, {}};
  udp_->send({&datagram, 1});  // if this is lost, it is asked again
}

void FailoverPort::send_probe(Peer& peer, uint64_t nonce, bool full) {
  probe_bytes_.resize(full ? ud_limit(peer) : PathProbe::kWireBytes);
  WriteProbe(probe_bytes_, {PathMessage::kQuestion, nonce});
  const TxDatagram datagram{peer.ud, probe_bytes_, {}};
  ud_->send({&datagram, 1});
}

void FailoverPort::report(const Peer& peer, PathNews news) const {
  const std::string& name = peer.udp_address.text();
  const auto without = [&](const std::string& why) {
    const bool warn = options_.expected || !options_.failover;
    const std::string instead =
        options_.failover ? "UDP carries the traffic with " : "nothing carries the traffic with ";
    Log(warn ? Severity::kWarning : Severity::kInfo, instead + name + ": " + why);
  };
  switch (news) {
    case PathNews::kProven:
      Log(Severity::kInfo, "RoCE carries the traffic with " + name + ": unreliable datagrams of " +
                               std::to_string(ud_limit(peer)) + " bytes from " +
                               ud_->address().text());
      return;
    case PathNews::kNoPort:
      return without(peer.no_ud_text);
    case PathNews::kNoAnswer:
      return without("it does not answer; it may run with another transport");
    case PathNews::kNotThrough:
      return without("RoCE datagrams of " + std::to_string(ud_limit(peer)) +
                     " bytes do not get through both ways; see that the ports are on one network, "
                     "with one MTU, and that no firewall drops UDP port 4791");
    case PathNews::kPeerPortDown:
      return without("its RoCE port is down");
    case PathNews::kFailed:
      Log(Severity::kWarning, "the RoCE path to " + name +
                                  " has fallen silent while UDP still gets through; " +
                                  (options_.failover ? "its traffic goes on over UDP"
                                                     : "failover is off, so operations will fail"));
      return;
  }
}

}  // namespace rocecoll
