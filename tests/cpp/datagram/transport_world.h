// SPDX-License-Identifier: Apache-2.0
// Datagram transports and what was seen to happen at them, over simulated or real ports.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "transport/datagram/datagram_transport.h"
#include "transport/datagram/udp_port.h"
#include "transport/sim/sim_network.h"
#include "transport/sim/sim_port.h"

namespace rocecoll {

using Bytes = std::vector<std::byte>;

inline Bytes RandomBytes(size_t size, uint64_t seed) {
  Random random(seed);
  Bytes bytes(size);
  for (size_t i = 0; i < size; i += 8) {
    const uint64_t word = random.next();
    std::memcpy(bytes.data() + i, &word, std::min<size_t>(8, size - i));
  }
  return bytes;
}

inline LinkId Between(Rank local, Rank remote, uint64_t group = 1) {
  return {group, 77, local, remote};
}

// What one link has reported.
struct LinkRecord {
  std::vector<Bytes> frames;
  std::vector<uint32_t> written;
  std::vector<uint32_t> landed;
  std::vector<Status> down;
};

struct Node {
  std::unique_ptr<DatagramTransport> transport;
  std::map<Link*, LinkRecord> links;
  std::vector<Bytes> notices;
  std::vector<LinkId> incoming;

  size_t poll(Instant now, size_t events = 16) {
    std::array<Event, 64> batch;
    const size_t count = transport->poll(now, std::span(batch).first(events));
    for (const Event& event : std::span(batch).first(count)) {
      const Bytes frame(event.frame.begin(), event.frame.end());
      if (event.kind == Event::Kind::kNotice) {
        EXPECT_EQ(event.link, nullptr);
        notices.push_back(frame);
        continue;
      }
      if (event.kind == Event::Kind::kIncoming) {
        EXPECT_EQ(event.link, nullptr);
        incoming.push_back(event.incoming);
        continue;
      }
      LinkRecord& record = links[event.link];
      EXPECT_TRUE(record.down.empty()) << "an event after Down";
      if (event.kind == Event::Kind::kFrame) record.frames.push_back(frame);
      if (event.kind == Event::Kind::kWritten) record.written.push_back(event.token);
      if (event.kind == Event::Kind::kLanded) record.landed.push_back(event.token);
      if (event.kind == Event::Kind::kDown) record.down.push_back(event.link->status());
    }
    return count;
  }
};

class World {
 public:
  virtual ~World() = default;
  virtual Instant now() const = 0;
  // Lets time pass until something may have arrived, at most until `next`.
  virtual void wait(Instant next) = 0;

  Node& operator[](size_t i) { return nodes[i]; }
  Link* open(uint32_t from, uint32_t to, uint64_t group = 1,
             Duration timeout = std::chrono::seconds(30)) {
    Result<Link*> link =
        nodes[from].transport->open(Between(from, to, group), addresses[to], timeout, now());
    EXPECT_TRUE(link.ok()) << link.status().message();
    return link.ok() ? link.value() : nullptr;
  }
  // Runs all nodes until `done`, at most for `limit`. True if done.
  bool run(const std::function<bool()>& done, Duration limit = std::chrono::seconds(20)) {
    const Instant end = now() + limit;
    while (true) {
      Instant next = end;
      bool busy = false;
      for (Node& node : nodes) {
        if (node.transport == nullptr) continue;
        busy = node.poll(now()) > 0 || busy;
        next = std::min(next, node.transport->next_deadline());
      }
      if (done()) return true;
      if (now() >= end) return false;
      if (!busy) wait(next);
    }
  }
  void run_for(Duration duration) {
    run([] { return false; }, duration);
  }
  // Every link of the node has its Written and its Landed for `count` writes.
  static bool transferred(const LinkRecord& from, const LinkRecord& into, size_t count) {
    return from.written.size() == count && into.landed.size() == count;
  }

  std::vector<Node> nodes;
  std::vector<Address> addresses;
};

class SimWorld final : public World {
 public:
  explicit SimWorld(size_t count, const SimWire& wire = {}, uint64_t seed = 1,
                    const SimPortOptions& port = {}, const ConnectionOptions& options = {})
      : network(queue, seed, wire), options_(options) {
    nodes.resize(count);
    for (Node& node : nodes) {
      auto sim = network.add_endpoint(port);
      ports.push_back(sim.get());
      addresses.push_back(sim->address());
      node.transport = std::make_unique<DatagramTransport>(std::move(sim), options);
    }
  }
  ~SimWorld() override { nodes.clear(); }
  Instant now() const override { return queue.now(); }
  void wait(Instant next) override {
    next = std::min(next, queue.next_time());
    // A deadline that has come leaves the clock alone; one microsecond keeps a loop from spinning.
    queue.run_until(std::max(next, queue.now() + std::chrono::microseconds(1)));
  }
  void kill(size_t i) { nodes[i].transport.reset(); }
  void restart(uint32_t i) {
    auto sim = network.restart_endpoint(i);
    ports[i] = sim.get();
    nodes[i] = Node();
    nodes[i].transport = std::make_unique<DatagramTransport>(std::move(sim), options_);
  }

  EventQueue queue;
  SimNetwork network;
  std::vector<SimPort*> ports;

 private:
  ConnectionOptions options_;
};

// Real sockets on loopback, real time.
class UdpWorld final : public World {
 public:
  UdpWorld(size_t count, const UdpPortOptions& port) {
    nodes.resize(count);
    for (Node& node : nodes) {
      Result<std::unique_ptr<UdpPort>> udp = UdpPort::Open(port);
      EXPECT_TRUE(udp.ok()) << udp.status().message();
      addresses.push_back(udp.value()->address());
      node.transport = std::make_unique<DatagramTransport>(udp.take(), ConnectionOptions());
    }
  }
  Instant now() const override {
    return Instant(std::chrono::steady_clock::now().time_since_epoch());
  }
  void wait(Instant next) override {
    const Duration left =
        std::clamp<Duration>(next - now(), Duration{0}, std::chrono::milliseconds(20));
    const timespec timeout{0, static_cast<long>(left.count())};
    std::vector<pollfd> items;
    for (Node& node : nodes) {
      if (node.transport) items.push_back({node.transport->wait_handle().fd, POLLIN, 0});
    }
    ppoll(items.data(), items.size(), &timeout, nullptr);
  }
};

}  // namespace rocecoll
