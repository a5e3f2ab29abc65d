// SPDX-License-Identifier: Apache-2.0
// Senders that always have something to send, one receiver, and one shared bottleneck between them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "datagram/cubic_flow.h"
#include "datagram/transport_world.h"
#include "transport/sim/sim_bottleneck.h"

namespace rocecoll {

struct BottleneckCase {
  const char* name;
  double gigabits = 1;
  Duration round_trip = std::chrono::microseconds(100);
  size_t buffer_bytes = 64 * 1024;
  size_t mark_above_bytes = SimQueue::kMarksNothing;
  uint32_t senders = 1;
  Duration warm_up = std::chrono::milliseconds(100);
  Duration measured = std::chrono::milliseconds(200);
  size_t datagram_bytes = 1452;
  double loss = 0;  // at random, on the way to the receiver
  uint32_t tcp_flows = 0;
  Duration tcp_slice{0};  // how long others have the cores of its hosts (cubic_flow.h)
  size_t writes_ahead = 4;
  // The required results.
  double least_used = 0.95;
  double most_retransmitted = 0.02;
  double least_jain = 0.95;
  double least_tcp = 0;
  double most_tcp = 1;
};

// What the bottleneck saw while it was measured.
struct BottleneckReport {
  double utilisation = 0;    // of the link, by all flows
  double retransmitted = 0;  // share of the packets sent by our senders
  double marked = 0;         // share of the same packets
  double jain = 0;           // over our senders
  double tcp_share = 0;      // of what passed
};

class BottleneckWorld {
 public:
  static constexpr size_t kWriteBytes = 256 * 1024;

  explicit BottleneckWorld(const BottleneckCase& c)
      : case_(c),
        bottleneck({c.gigabits * 1e9 / 8, c.buffer_bytes, c.mark_above_bytes}),
        world(c.senders + 1, OpenWire(c), 1, Port(c)),
        source_(kWriteBytes),
        target_(kWriteBytes) {
    for (uint32_t i = 1; i <= c.senders; ++i) {
      SimWire& wire = world.network.wire(i, 0);
      wire.bottleneck = &bottleneck;
      wire.loss = c.loss;
      const auto [to, from] = world.connect(i, 0);
      flows_.push_back({to, from});
    }
  }

  BottleneckReport measure() {
    start_tcp();
    pump_for(case_.warm_up);
    const Snapshot before = snapshot();
    pump_for(case_.measured);
    const Snapshot after = snapshot();
    BottleneckReport report;
    report.utilisation = (after.passed_bytes - before.passed_bytes) /
                         (bottleneck.bytes_per_second() * Seconds(case_.measured));
    report.retransmitted =
        (after.retransmitted - before.retransmitted) / std::max(after.sent - before.sent, 1.0);
    report.marked = (after.marked - before.marked) / std::max(after.sent - before.sent, 1.0);
    double sum = 0;
    double squares = 0;
    for (size_t i = 0; i < flows_.size(); ++i) {
      const double bytes = after.flow_bytes[i] - before.flow_bytes[i];
      sum += bytes;
      squares += bytes * bytes;
    }
    report.jain = squares > 0 ? sum * sum / squares / static_cast<double>(flows_.size()) : 0;
    report.tcp_share = (after.tcp_bytes - before.tcp_bytes) /
                       std::max(after.passed_bytes - before.passed_bytes, 1.0);
    return report;
  }

  // Lets the senders send for this time.
  void pump_for(Duration duration) {
    const Instant end = world.now() + duration;
    world.run(
        [this] {
          refill();
          return false;
        },
        end - world.now());
  }

 private:
  struct Flow {
    Link* sender;
    Link* receiver;
    size_t begun = 0;
    size_t done = 0;
  };
  struct Snapshot {
    double passed_bytes = 0;
    double sent = 0;
    double retransmitted = 0;
    double marked = 0;
    double tcp_bytes = 0;
    std::vector<double> flow_bytes;
  };

  static SimWire OpenWire(const BottleneckCase& c) {
    SimWire wire;
    wire.latency = c.round_trip / 2;
    return wire;
  }
  static SimPortOptions Port(const BottleneckCase& c) {
    SimPortOptions port;
    port.max_datagram_bytes = c.datagram_bytes;
    port.receive_buffer_bytes = 4 * 1024 * 1024;
    return port;
  }

  void refill() {
    for (Flow& flow : flows_) {
      LinkRecord& written =
          world.nodes[1 + static_cast<size_t>(&flow - flows_.data())].links[flow.sender];
      EXPECT_TRUE(written.down.empty());
      flow.done += written.written.size();
      written.written.clear();
      for (; flow.begun < flow.done + case_.writes_ahead; ++flow.begun) {
        const LocalSlice into{target_.data(), target_.size(), 0};
        ASSERT_TRUE(flow.sender->write(flow.receiver->expose(into, 0),
                                       {source_.data(), source_.size(), 0}, 0));
      }
    }
    for (auto& [link, record] : world.nodes[0].links) record.landed.clear();
  }

  void start_tcp() {
    for (uint32_t i = 0; i < case_.tcp_flows; ++i) {
      tcp_.push_back(std::make_unique<CubicFlow>(world.queue, bottleneck, kFirstTcp + i,
                                                 case_.round_trip, case_.tcp_slice));
    }
  }

  Snapshot snapshot() {
    Snapshot now;
    now.passed_bytes = static_cast<double>(bottleneck.passed_bytes());
    for (uint32_t i = 1; i <= case_.senders; ++i) {
      const TransportStats stats = world.nodes[i].transport->stats();
      now.sent += static_cast<double>(stats.packets_sent);
      now.marked += static_cast<double>(stats.packets_marked);
      now.retransmitted += static_cast<double>(stats.packets_retransmitted);
      now.flow_bytes.push_back(static_cast<double>(bottleneck.passed_bytes(i)));
    }
    for (uint32_t i = 0; i < case_.tcp_flows; ++i) {
      now.tcp_bytes += static_cast<double>(bottleneck.passed_bytes(kFirstTcp + i));
    }
    return now;
  }

  static constexpr uint32_t kFirstTcp = 1000;
  const BottleneckCase case_;

 public:
  SimBottleneck bottleneck;
  SimWorld world;

 private:
  Bytes source_;
  Bytes target_;
  std::vector<Flow> flows_;
  std::vector<std::unique_ptr<CubicFlow>> tcp_;
};

}  // namespace rocecoll
