// SPDX-License-Identifier: Apache-2.0
// A FailoverPort facing a peer that sends whatever a test wants.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "datagram/transport_world.h"
#include "transport/datagram/ud/failover_port.h"

namespace rocecoll {

// Returns copies of what a raw port receives.
inline std::vector<Bytes> Drain(SimPort& port) {
  std::vector<Bytes> all;
  std::array<RxDatagram, 16> batch;
  while (const size_t count = port.receive(batch)) {
    for (const RxDatagram& datagram : std::span(batch).first(count)) {
      all.emplace_back(datagram.bytes.begin(), datagram.bytes.end());
    }
    port.release(std::span(batch).first(count));
  }
  return all;
}

inline Bytes Hello(const PathHello& hello) {
  Bytes bytes(PathHello::kWireBytes);
  WriteHello(bytes, hello);
  return bytes;
}

inline Bytes Probe(PathMessage message, uint64_t nonce) {
  Bytes bytes(PathProbe::kWireBytes);
  WriteProbe(bytes, {message, nonce});
  return bytes;
}

// The port under test, and the two raw ports of its peer.
struct Scripted {
  explicit Scripted(const FailoverOptions& options = {}, bool ud_checks_payload = false) {
    auto first = udp.add_endpoint({.max_datagram_bytes = 8192});
    ud.add_endpoint();
    auto second =
        ud.add_endpoint({.max_datagram_bytes = 4096, .checks_payload = ud_checks_payload});
    own_udp = first.get();
    own_ud = second.get();
    port = FailoverPort::Make(std::move(first), std::move(second), options,
                              [this] { return queue.now(); });
    peer_udp = udp.add_endpoint({.max_datagram_bytes = 8192});
    peer_ud = ud.add_endpoint({.max_datagram_bytes = 4096});
    peer = port->add_peer(peer_udp->address()).value();
  }
  // Keeps up traffic and lets time pass. What the owner receives is counted and released.
  void run(Duration duration, bool traffic = true) {
    const Instant end = queue.now() + duration;
    Instant next_packet = queue.now();
    do {
      if (traffic && queue.now() >= next_packet) {
        send();
        next_packet = queue.now() + std::chrono::milliseconds(50);
      }
      receive();
      Instant next = std::min({end, queue.next_time(), port->next_deadline()});
      if (traffic) next = std::min(next, next_packet);
      queue.run_until(std::max(next, queue.now() + std::chrono::microseconds(1)));
    } while (queue.now() < end);
  }
  void receive() {
    std::array<RxDatagram, 8> batch;
    const size_t count = port->receive(batch);
    passed_on += count;
    port->release(std::span(batch).first(count));
  }
  size_t send(size_t bytes = 100) {
    Bytes packet(bytes);
    WritePacketHeader(packet, {PacketType::kPacket, 1, 1});
    const TxDatagram datagram{peer, packet, {}};
    return port->send({&datagram, 1});
  }
  static void say(SimPort& from, const SimPort& to, const Bytes& bytes) {
    const PeerHandle handle = from.add_peer(to.address()).value();
    const TxDatagram datagram{handle, bytes, {}};
    from.send({&datagram, 1});
  }
  // The open questions that have arrived, by kind.
  std::vector<PathHello> hellos() {
    std::vector<PathHello> all;
    for (const Bytes& bytes : Drain(*peer_udp)) {
      if (const auto hello = ParseHello(bytes)) all.push_back(*hello);
    }
    return all;
  }
  std::vector<PathProbe> probes() {
    std::vector<PathProbe> all;
    for (const Bytes& bytes : Drain(*peer_ud)) {
      if (const auto probe = ParseProbe(bytes)) all.push_back(*probe);
    }
    return all;
  }
  PathHello answer_to(const PathHello& question) const {
    PathHello answer = question;
    answer.message = PathMessage::kAnswer;
    answer.port = PathHello::Port::kUsable;
    answer.knows_receiver = true;
    answer.datagram_bytes = 4096;
    answer.address = peer_ud->address();
    return answer;
  }
  // Brings the port to the state in which it probes, and returns the answer that did so.
  PathHello lead_to_probing() {
    run(std::chrono::milliseconds(2));
    const PathHello answer = answer_to(hellos().at(0));
    say(*peer_udp, *own_udp, Hello(answer));
    run(std::chrono::milliseconds(1));
    return answer;
  }
  void lead_to_ud() {
    lead_to_probing();
    say(*peer_ud, *own_ud, Probe(PathMessage::kAnswer, probes().at(0).nonce));
    run(std::chrono::milliseconds(1));
    ASSERT_TRUE(port->uses_ud(peer));
  }

  EventQueue queue;
  SimNetwork udp{queue, 1};
  SimNetwork ud{queue, 2};
  SimPort* own_udp = nullptr;
  SimPort* own_ud = nullptr;
  std::unique_ptr<SimPort> peer_udp;
  std::unique_ptr<SimPort> peer_ud;
  std::unique_ptr<FailoverPort> port;
  PeerHandle peer;
  size_t passed_on = 0;
};

}  // namespace rocecoll
