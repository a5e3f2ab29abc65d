// SPDX-License-Identifier: Apache-2.0
// Pairs of processes on two hosts, with a separate shaper in each direction between the hosts. The
// hosts are as busy as real ones: a process that has sent and received does nothing else for a
// while, and now and then others have its core.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/random.h"
#include "datagram/cubic_flow.h"
#include "datagram/transport_world.h"
#include "transport/sim/sim_bottleneck.h"

namespace rocecoll {

struct ShaperCase {
  SimQueue shaper;
  bool both_ways = false;  // as in allreduce: both write, and go on when both writes have arrived
  uint32_t pairs = 1;
  bool busy = false;
  bool back_full = false;  // full of a TCP flow, so that acknowledgements wait in a queue
  Duration round_trip = std::chrono::microseconds(60);
  double loss = 0;     // at random
  Duration jitter{0};  // the most for each packet and way, which lets packets overtake each other
  size_t write_bytes = 512 * 1024;
  CongestionControl control = CongestionControl::kModel;
  Duration warm_up = std::chrono::milliseconds(500);
  Duration measured = std::chrono::milliseconds(500);
};

struct ShaperReport {
  double goodput = 0;        // share of the rate of one direction
  double retransmitted = 0;  // share of the packets sent
  Duration rtt{};            // smoothed, on average
};

class ShaperWorld {
 public:
  explicit ShaperWorld(const ShaperCase& c)
      : case_(c),
        there_(c.shaper),
        back_(c.shaper),
        world_(2 * c.pairs, Wire(c), 1, Port(), Options(c)),
        processes_(2 * c.pairs),
        write_bytes_(c.write_bytes),
        source_(c.write_bytes),
        target_(c.write_bytes) {
    for (uint32_t i = 0; i < c.pairs; ++i) {
      world_.network.wire(i, c.pairs + i).bottleneck = &there_;
      world_.network.wire(c.pairs + i, i).bottleneck = &back_;
      const auto [near, far] = world_.connect(i, c.pairs + i);
      pairs_.push_back({near, far});
    }
    if (!c.back_full) return;
    world_.queue.schedule(world_.now() + kTcpBegins, [this] {
      tcp_.emplace(world_.queue, back_, kTcpFlow, case_.round_trip);
    });
  }

  ShaperReport measure() {
    run_for(case_.warm_up);
    return measure(case_.measured);
  }
  // Reports what happens from now on, for this time.
  ShaperReport measure(Duration duration) {
    const Counts before = counts();
    rtts_ = {};
    run_for(duration);
    const Counts after = counts();
    ShaperReport report;
    report.goodput = (after.arrived_bytes - before.arrived_bytes) /
                     (there_.bytes_per_second() * Seconds(duration));
    report.retransmitted = (after.again - before.again) / std::max(after.sent - before.sent, 1.0);
    report.rtt = rtts_.count == 0 ? Duration{0} : rtts_.sum / rtts_.count;
    return report;
  }
  // The size of each write from now on, at most the size at the start.
  void set_write_bytes(size_t bytes) { write_bytes_ = bytes; }
  // The path changes while traffic uses it.
  void set_rate(double bytes_per_second) { there_.set_rate(world_.now(), bytes_per_second); }
  void set_round_trip(Duration round_trip) {
    for_each_wire([&](SimWire& wire) { wire.latency = round_trip / 2; });
  }
  void set_loss(double share) {
    for_each_wire([&](SimWire& wire) { wire.loss = share; });
  }

 private:
  struct Pair {
    Link* near;
    Link* far;
    size_t begun = 0;
    size_t written = 0;
    size_t arrived_far = 0;
    size_t arrived_near = 0;
  };
  struct Process {
    Instant free_at{};
    uint64_t packets = 0;
  };
  struct Counts {
    double sent = 0;
    double again = 0;
    double arrived_bytes = 0;
  };
  struct Rtts {
    Duration sum{};
    int count = 0;
    Instant taken_at{};
  };
  static constexpr size_t kWritesAhead = 4;
  static constexpr uint32_t kTcpFlow = 1000;  // a number that no process has
  static constexpr Duration kTcpBegins = std::chrono::milliseconds(10);
  // The cost of a turn, and of each packet in it; then the average time slice of others, and how
  // many slices occur for each second that the process has worked.
  static constexpr Duration kTurn = std::chrono::microseconds(5);
  static constexpr Duration kBusyTurn = std::chrono::microseconds(20);
  static constexpr Duration kPacketTime = std::chrono::nanoseconds(300);
  static constexpr Duration kSlice = std::chrono::milliseconds(1);
  static constexpr double kSlicesPerSecond = 150;

  static SimWire Wire(const ShaperCase& c) {
    SimWire wire;
    wire.latency = c.round_trip / 2;
    wire.loss = c.loss;
    wire.reorder = c.jitter > Duration{0} ? 1 : 0;
    wire.reorder_delay = c.jitter;
    return wire;
  }
  static ConnectionOptions Options(const ShaperCase& c) {
    ConnectionOptions options;
    options.congestion = c.control;
    return options;
  }
  static SimPortOptions Port() {
    SimPortOptions port;
    port.receive_buffer_bytes = 4 * 1024 * 1024;
    return port;
  }

  template <typename Change>
  void for_each_wire(Change change) {
    for (uint32_t i = 0; i < case_.pairs; ++i) {
      change(world_.network.wire(i, case_.pairs + i));
      change(world_.network.wire(case_.pairs + i, i));
    }
  }
  void run_for(Duration duration) {
    const Instant end = world_.now() + duration;
    while (world_.now() < end) {
      Instant next = end;
      for (uint32_t i = 0; i < processes_.size(); ++i) next = std::min(next, turn(i));
      for (Pair& pair : pairs_) go_on(pair);
      take_rtt();
      next = std::min(next, world_.queue.next_time());
      world_.queue.run_until(std::max(next, world_.now() + std::chrono::microseconds(1)));
    }
  }

  // Returns when the process has another turn.
  Instant turn(uint32_t i) {
    Process& process = processes_[i];
    if (world_.now() < process.free_at) return process.free_at;
    const size_t events = world_.nodes[i].poll(world_.now());
    const TransportStats stats = world_.nodes[i].transport->stats();
    const uint64_t packets = stats.packets_sent + stats.packets_received;
    const uint64_t moved = packets - std::exchange(process.packets, packets);
    if (events == 0 && moved == 0) return world_.nodes[i].transport->next_deadline();
    Duration time = (case_.busy ? kBusyTurn : kTurn) + static_cast<int64_t>(moved) * kPacketTime;
    if (case_.busy && random_.chance(Seconds(time) * kSlicesPerSecond)) {
      time += Duration(static_cast<int64_t>(random_.below(2 * kSlice.count())));
    }
    return process.free_at = world_.now() + time;
  }

  void go_on(Pair& pair) {
    LinkRecord& near = world_.nodes[world_index(pair, false)].links[pair.near];
    LinkRecord& far = world_.nodes[world_index(pair, true)].links[pair.far];
    EXPECT_TRUE(near.down.empty() && far.down.empty());
    pair.written += near.written.size();
    pair.arrived_far += far.landed.size();
    arrived_bytes_ += static_cast<double>(far.landed.size() * write_bytes_);
    pair.arrived_near += near.landed.size();
    for (LinkRecord* record : {&near, &far}) {
      record->written.clear();
      record->landed.clear();
    }
    if (!case_.both_ways) {
      for (; pair.begun < pair.written + kWritesAhead; ++pair.begun) write(*pair.near, *pair.far);
    } else if (std::min(pair.arrived_far, pair.arrived_near) == pair.begun) {
      ++pair.begun;
      write(*pair.near, *pair.far);
      write(*pair.far, *pair.near);
    }
  }
  void write(Link& from, Link& to) {
    const LocalSlice into{target_.data(), write_bytes_, 0};
    ASSERT_TRUE(from.write(to.expose(into, 0), {source_.data(), write_bytes_, 0}, 0));
  }
  uint32_t world_index(const Pair& pair, bool far) const {
    return static_cast<uint32_t>(&pair - pairs_.data()) + (far ? case_.pairs : 0);
  }

  void take_rtt() {
    if (world_.now() < rtts_.taken_at + std::chrono::milliseconds(1)) return;
    rtts_.taken_at = world_.now();
    const auto stats = pairs_.front().near->path_stats();
    if (stats.empty() || !stats.front().rtt) return;
    rtts_.sum += *stats.front().rtt;
    ++rtts_.count;
  }

  Counts counts() {
    Counts now;
    for (uint32_t i = 0; i < (case_.both_ways ? 2 : 1) * case_.pairs; ++i) {
      const TransportStats stats = world_.nodes[i].transport->stats();
      now.sent += static_cast<double>(stats.packets_sent);
      now.again += static_cast<double>(stats.packets_retransmitted);
    }
    now.arrived_bytes = arrived_bytes_;
    return now;
  }

  const ShaperCase case_;
  SimBottleneck there_;
  SimBottleneck back_;
  SimWorld world_;
  std::optional<CubicFlow> tcp_;
  std::vector<Process> processes_;
  std::vector<Pair> pairs_;
  size_t write_bytes_;
  double arrived_bytes_ = 0;  // at the receiving ends
  Bytes source_;
  Bytes target_;
  Random random_{1};
  Rtts rtts_;
};

}  // namespace rocecoll
