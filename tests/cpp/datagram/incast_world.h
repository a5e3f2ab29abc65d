// SPDX-License-Identifier: Apache-2.0
// Many senders to one port of a switch, as in a gather: all write at once, and again when
// everything has arrived.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/random.h"
#include "datagram/transport_world.h"
#include "transport/datagram/reliability/frame_wire.h"
#include "transport/datagram/reliability/packet_wire.h"
#include "transport/sim/sim_bottleneck.h"

namespace rocecoll {

struct IncastCase {
  double gigabits = 1;
  uint32_t senders = 8;
  size_t write_bytes = 1024 * kKiB;  // for each sender
  CongestionControl control = CongestionControl::kModel;
  uint64_t seed = 1;
  Duration round_trip = std::chrono::microseconds(100);
  size_t buffer_bytes = 256 * kKiB;
};

struct IncastReport {
  double dropped = 0;  // share of the datagrams sent to the port
  // Per call, relative to a round trip plus the time that the port needs for the bytes that have to
  // pass.
  double time = 0;
};

class IncastWorld {
 public:
  explicit IncastWorld(const IncastCase& c)
      : case_(c),
        port_({.bytes_per_second = c.gigabits * 1e9 / 8, .buffer_bytes = c.buffer_bytes}),
        world_(c.senders + 1, Wire(c), c.seed, Ports(), Options(c)),
        source_(c.write_bytes),
        target_(c.write_bytes) {
    Random random(c.seed);
    for (uint32_t i = 1; i <= c.senders; ++i) {
      SimWire& wire = world_.network.wire(i, 0);
      wire.bottleneck = &port_;
      // The cables differ by up to 20 m.
      wire.latency += Duration(static_cast<int64_t>(random.below(100)));
      links_.push_back(world_.connect(i, 0));
    }
    world_.run_for(std::chrono::milliseconds(5));  // by then the links are open
    sent_ = sent();
  }

  IncastReport measure(int calls) {
    const uint64_t dropped = world_.network.stats().dropped;
    const Instant began = world_.now();
    for (int i = 0; i < calls; ++i) call();
    const double needed = wire_bytes() / port_.bytes_per_second() + Seconds(case_.round_trip);
    const uint64_t before = std::exchange(sent_, sent());
    // Acknowledgements take other ways, on which none is dropped.
    return {.dropped = static_cast<double>(world_.network.stats().dropped - dropped) /
                       static_cast<double>(sent_ - before),
            .time = Seconds(world_.now() - began) / (calls * needed)};
  }

 private:
  static constexpr size_t kDatagramBytes = 1452;

  static SimWire Wire(const IncastCase& c) {
    SimWire wire;
    wire.latency = c.round_trip / 2;
    return wire;
  }
  static ConnectionOptions Options(const IncastCase& c) {
    ConnectionOptions options;
    options.congestion = c.control;
    return options;
  }
  static SimPortOptions Ports() {
    SimPortOptions ports;
    ports.max_datagram_bytes = kDatagramBytes;
    ports.receive_buffer_bytes = 4 * 1024 * kKiB;
    return ports;
  }
  // The bytes of one call, including the headers.
  double wire_bytes() const {
    constexpr size_t kContent = kDatagramBytes - kPacketHeaderBytes - kDataHeaderBytes;
    return static_cast<double>(links_.size() * source_.size()) * kDatagramBytes / kContent;
  }
  uint64_t sent() const {
    uint64_t packets = 0;
    for (size_t i = 1; i < world_.nodes.size(); ++i) {
      packets += world_.nodes[i].transport->stats().packets_sent;
    }
    return packets;
  }
  void call() {
    for (auto& [from, to] : links_) {
      const LocalSlice into{target_.data(), target_.size(), 0};
      ASSERT_TRUE(from->write(to->expose(into, 0), {source_.data(), source_.size(), 0}, 0));
    }
    size_t landed = 0;
    ASSERT_TRUE(world_.run([&] {
      for (auto& [link, record] : world_.nodes[0].links) {
        landed += std::exchange(record.landed, {}).size();
      }
      return landed == links_.size();
    }));
  }

  const IncastCase case_;
  SimBottleneck port_;
  SimWorld world_;
  Bytes source_;
  Bytes target_;
  std::vector<std::pair<Link*, Link*>> links_;
  uint64_t sent_ = 0;  // sent before the measurement
};

}  // namespace rocecoll
