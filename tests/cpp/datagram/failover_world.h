// SPDX-License-Identifier: Apache-2.0
// Processes with a UDP and a UD port each, on two simulated networks in one virtual time.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "datagram/transport_world.h"
#include "transport/datagram/ud/failover_port.h"

namespace rocecoll {

struct FailoverWorldOptions {
  size_t count = 2;
  std::vector<bool> without_ud = {};  // by node; absent: with
  SimWire udp_wire = {.bytes_per_second = 1e9};
  SimWire ud_wire = {.bytes_per_second = 1e9};
  SimPortOptions udp_port = {.max_datagram_bytes = 8192};
  std::vector<size_t> ud_mtus = {};  // by node; absent: 4096
  bool ud_checks_payload = false;
  FailoverOptions failover = {};
  ConnectionOptions connection = {};
  uint64_t seed = 1;
};

class FailoverWorld final : public VirtualWorld {
 public:
  explicit FailoverWorld(const FailoverWorldOptions& options)
      : options_(options),
        udp(queue, options.seed, options.udp_wire),
        ud(queue, options.seed + 100, options.ud_wire) {
    use_clock(queue);
    udp.set_report_unreachable(true);
    // An address of one network must never be taken for one of the other.
    for (uint32_t i = 0; i < kShift; ++i) idle.push_back(ud.add_endpoint());
    ports.resize(options.count);
    udp_ports.resize(options.count);
    ud_ports.resize(options.count);
    for (uint32_t i = 0; i < options.count; ++i) {
      const bool none = i < options.without_ud.size() && options.without_ud[i];
      add(process(i, udp.add_endpoint(options.udp_port),
                  none ? nullptr : ud.add_endpoint(ud_options(i))));
    }
  }
  ~FailoverWorld() override {
    for (size_t i = 0; i < nodes.size(); ++i) destroy(i);
  }

  void kill(size_t i) override {
    destroy(i);
    ports[i] = nullptr;
  }
  bool carries(const LinkId& link) override {
    const bool both_have = ud_ports[link.local] != nullptr && ud_ports[link.remote] != nullptr;
    return uses_ud(link.local, link.remote) == both_have;
  }
  // UD fails and comes back everywhere.
  void disturb(uint32_t occasion) override {
    for (uint32_t a = 0; a < nodes.size(); ++a) {
      for (uint32_t b = 0; b < nodes.size(); ++b) {
        if (a != b && ud_ports[a] && ud_ports[b]) cut(a, b, occasion % 2 == 0);
      }
    }
  }
  // Starts a new process at the old UDP address, with a UD port of its own.
  void restart(uint32_t i) {
    replace(i,
            process(i, udp.restart_endpoint(i, options_.udp_port), ud.add_endpoint(ud_options(i))));
  }
  // Cuts (or mends) UD from one node to another.
  void cut(uint32_t from, uint32_t to, bool blocked = true) {
    ud.wire(ud_ports[from]->endpoint(), ud_ports[to]->endpoint()).blocked = blocked;
  }
  void cut_both(bool blocked = true) {
    cut(0, 1, blocked);
    cut(1, 0, blocked);
  }
  PeerHandle peer(uint32_t from, uint32_t to) {
    return ports[from]->add_peer(addresses[to]).value();
  }
  bool uses_ud(uint32_t from, uint32_t to) { return ports[from]->uses_ud(peer(from, to)); }
  // Opens the links between all nodes and waits until UD carries them wherever it can.
  bool prove(const std::function<bool(uint32_t, uint32_t)>& expected = [](uint32_t, uint32_t) {
    return true;
  }) {
    open_all();
    return run(
        [&] {
          bool all = true;
          for (uint32_t a = 0; a < nodes.size(); ++a) {
            for (uint32_t b = 0; b < nodes.size(); ++b) {
              all = all && (a == b || uses_ud(a, b) == expected(a, b));
            }
          }
          return all;
        },
        std::chrono::seconds(10));
  }
  void open_all() {
    for (uint32_t a = 0; a < nodes.size(); ++a) {
      for (uint32_t b = 0; b < nodes.size(); ++b) {
        if (a != b) links[{a, b}] = open(a, b);
      }
    }
  }
  // Writes from one node to another in several parts, with a frame after each, and fails unless all
  // bits match. `meanwhile` runs once, when the first part has landed.
  void transfer(uint32_t from, uint32_t to, size_t bytes,
                const std::function<void()>& meanwhile = {},
                Duration limit = std::chrono::seconds(60)) {
    constexpr uint32_t kParts = 8;
    Link* const out = links.at({from, to});
    Link* const in = links.at({to, from});
    std::vector<Bytes> sources, targets(kParts, Bytes(bytes));
    LinkRecord& sent = nodes[from].links[out];
    LinkRecord& received = nodes[to].links[in];
    const size_t landed = received.landed.size();
    const size_t frames = received.frames.size();
    std::vector<Bytes> expected;
    for (uint32_t i = 0; i < kParts; ++i) {
      sources.push_back(RandomBytes(bytes, ++seed_));
      const RemoteSlice slice = in->expose({targets[i].data(), bytes}, i);
      ASSERT_TRUE(out->write(slice, {sources[i].data(), bytes}, i));
      expected.push_back(RandomBytes(kFrameBytes, ++seed_));
      ASSERT_TRUE(out->send_frame(expected.back()));
    }
    bool told = !meanwhile;
    const size_t written = sent.written.size();
    const bool done = run(
        [&] {
          if (!told && received.landed.size() > landed) {
            told = true;
            meanwhile();
          }
          return received.landed.size() == landed + kParts &&
                 sent.written.size() == written + kParts &&
                 received.frames.size() == frames + kParts;
        },
        limit);
    ASSERT_TRUE(done) << (received.down.empty() ? "" : received.down[0].message());
    EXPECT_TRUE(told);
    EXPECT_EQ(sources, targets);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                           received.frames.begin() + static_cast<ptrdiff_t>(frames)));
  }

  static constexpr uint32_t kShift = 5;
  static constexpr size_t kFrameBytes = 5000;  // more than one datagram over UD carries
  EventQueue queue;

 private:
  SimPortOptions ud_options(uint32_t i) const {
    return {.max_datagram_bytes = i < options_.ud_mtus.size() ? options_.ud_mtus[i] : 4096,
            .checks_payload = options_.ud_checks_payload};
  }
  std::unique_ptr<Transport> process(uint32_t i, std::unique_ptr<SimPort> first,
                                     std::unique_ptr<SimPort> second) {
    udp_ports[i] = first.get();
    ud_ports[i] = second.get();
    auto port = FailoverPort::Make(std::move(first), std::move(second), options_.failover,
                                   [this] { return queue.now(); });
    ports[i] = port.get();
    return std::make_unique<DatagramTransport>(std::move(port), options_.connection);
  }

  const FailoverWorldOptions options_;
  uint64_t seed_ = 1000;

 public:
  SimNetwork udp;
  SimNetwork ud;
  std::vector<std::unique_ptr<SimPort>> idle;
  std::vector<FailoverPort*> ports;
  std::vector<SimPort*> udp_ports;
  std::vector<SimPort*> ud_ports;
  std::map<std::pair<uint32_t, uint32_t>, Link*> links;
};

}  // namespace rocecoll
