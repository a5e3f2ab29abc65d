// SPDX-License-Identifier: Apache-2.0
// Engines over a simulated packet network, whose processes can be paused, killed and started again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/engine_cluster.h"
#include "swarm/swarm_plan.h"
#include "transport/datagram/datagram_transport.h"
#include "transport/sim/sim_port.h"

namespace rocecoll {

class SwarmCluster final : public EngineCluster {
 public:
  explicit SwarmCluster(const SwarmPlan& plan)
      : EngineCluster(plan.messenger, std::chrono::hours(1)),
        plan_(plan),
        shared_(MakeQueue(plan.queue)),
        network_(queue_, plan.seed, wire(0, 0)),
        transports_(plan.ranks),
        ports_(plan.ranks) {
    network_.set_report_unreachable(plan.report_unreachable);
    for (Rank rank = 0; rank < plan.ranks; ++rank) {
      make_process(rank, network_.add_endpoint(plan.port));
      add_rank(*transports_[rank], plan.engine);
    }
    start();
  }
  ~SwarmCluster() override {
    for (Rank rank = 0; rank < ranks(); ++rank) remove_rank(rank);
  }

  Instant now() const override { return queue_.now(); }
  bool run(const std::function<bool()>& done, Duration limit) override {
    const Instant end = now() + limit;
    while (true) {
      Instant next = end;
      for (Rank rank = 0; rank < ranks(); ++rank) {
        if (runs(rank)) next = std::min(next, run_process(rank));
      }
      if (done()) return true;
      if (now() >= end) return false;
      queue_.run_until(std::max(std::min(next, queue_.next_time()), now() + Duration(1)));
    }
  }

  // Once; the plan's faults stay as they are from then on.
  void begin_faults() {
    for (const SwarmFault& fault : plan_.faults) schedule(fault);
    queue_.schedule(Instant(plan_.heal_at), [this] {
      healed_ = true;
      apply();
    });
  }

  // The program of a rank: called whenever its process runs, until the instant that it returns.
  std::function<Instant(Rank)> program = [](Rank) { return kNever; };
  bool is_alive(Rank rank) const { return has_engine(rank); }
  bool runs(Rank rank) const { return is_alive(rank) && !active(SwarmFault::Kind::kPause, rank); }
  // Not a timer, not a link, nothing of the network's is left in the process.
  bool is_empty(Rank rank) const {
    return !transports_[rank]->lingering() && transports_[rank]->next_deadline() == kNever &&
           ports_[rank]->leased() == 0;
  }
  void restart(Rank rank) {
    make_process(rank, network_.restart_endpoint(rank, plan_.port));
    replace_rank(rank, *transports_[rank], plan_.engine);
    apply();
  }
  const SimNetwork& network() const { return network_; }

 private:
  using Kind = SwarmFault::Kind;

  static std::optional<SimBottleneck> MakeQueue(const SimQueue& queue) {
    if (queue.bytes_per_second == 0) return std::nullopt;
    return SimBottleneck(queue);
  }
  void make_process(Rank rank, std::unique_ptr<SimPort> port) {
    ports_[rank] = port.get();
    transports_[rank] = std::make_unique<DatagramTransport>(std::move(port), plan_.connection);
  }
  Instant run_process(Rank rank) {
    const Instant program_next = program(rank);
    const Instant engine_next = step(rank, now());
    // What has completed is the program's to see before time goes on.
    return std::min({program_next, engine_next, program(rank)});
  }

  void schedule(const SwarmFault& fault) {
    queue_.schedule(Instant(fault.at), [this, &fault] {
      active_.push_back(&fault);
      if (fault.kind == Kind::kKill || fault.kind == Kind::kRestart) kill(fault);
      apply();
    });
    queue_.schedule(Instant(fault.at + fault.length), [this, &fault] {
      std::erase(active_, &fault);
      if (fault.kind == Kind::kRestart) restart(static_cast<Rank>(std::countr_zero(fault.from)));
      apply();
    });
  }
  // Nothing of what the rank would say when it ends reaches anybody.
  void kill(const SwarmFault& fault) {
    const auto rank = static_cast<Rank>(std::countr_zero(fault.from));
    for (Rank other = 0; other < ranks(); ++other) network_.wire(rank, other).blocked = true;
    remove_rank(rank);
    ports_[rank] = nullptr;
    transports_[rank].reset();
  }
  bool active(Kind kind, Rank rank) const {
    return std::ranges::any_of(active_, [&](const SwarmFault* fault) {
      return fault->kind == kind && Contains(fault->from, rank);
    });
  }
  // Makes the network what the faults of this moment make of it.
  void apply() {
    for (Rank from = 0; from < ranks(); ++from) {
      if (is_alive(from)) ports_[from]->set_send_room(active(Kind::kRefuse, from) ? 0 : SIZE_MAX);
      for (Rank to = 0; to < ranks(); ++to) network_.wire(from, to) = wire(from, to);
    }
  }
  SimWire wire(Rank from, Rank to) {
    SimWire wire = plan_.wire;
    if (shared_) wire.bottleneck = &*shared_;
    if (healed_) wire.loss = wire.duplicate = wire.reorder = wire.corrupt = 0;
    for (const SwarmFault* fault : active_) {
      if (!Contains(fault->from, from) || !Contains(fault->to, to)) continue;
      wire.blocked = wire.blocked || fault->kind == Kind::kCut;
      if (fault->kind > Kind::kNarrow) continue;
      if (wire.mtu_bytes == 0 ||
          (fault->wire.mtu_bytes > 0 && fault->wire.mtu_bytes < wire.mtu_bytes)) {
        wire.mtu_bytes = fault->wire.mtu_bytes;
        wire.mtu_reported = fault->wire.mtu_reported;
      }
      wire.latency += fault->wire.latency;
      wire.loss = std::max(wire.loss, fault->wire.loss);
      wire.duplicate = std::max(wire.duplicate, fault->wire.duplicate);
      wire.reorder = std::max(wire.reorder, fault->wire.reorder);
      wire.corrupt = std::max(wire.corrupt, fault->wire.corrupt);
    }
    return wire;
  }

  const SwarmPlan& plan_;
  EventQueue queue_;
  std::optional<SimBottleneck> shared_;
  std::vector<const SwarmFault*> active_;
  bool healed_ = false;
  SimNetwork network_;
  std::vector<std::unique_ptr<DatagramTransport>> transports_;
  std::vector<SimPort*> ports_;
};

}  // namespace rocecoll
