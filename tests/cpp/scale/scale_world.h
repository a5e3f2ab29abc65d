// SPDX-License-Identifier: Apache-2.0
// A group of many engines over simulated datagram ports, of which rank 0 is tracked.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "scale/tracked_heap.h"
#include "transport/datagram/datagram_transport.h"
#include "transport/sim/sim_network.h"
#include "transport/sim/sim_port.h"

namespace rocecoll {

class ScaleWorld {
 public:
  // `ranks` in the group, of which the first `processes` exist. Rank 0 has its own table of them.
  ScaleWorld(uint32_t ranks, uint32_t processes) : network_(queue_, 1), processes_(processes) {
    std::vector<Address> addresses;
    for (uint32_t i = 0; i < ranks; ++i) addresses.push_back(SimAddress(i));
    const SharedVector<Address> shared(addresses);
    for (Rank rank = 0; rank < processes; ++rank) {
      auto port = network_.add_endpoint();
      as(rank,
         [&] { processes_[rank].start(std::move(port), rank, rank == 0 ? addresses : shared); });
    }
  }
  ~ScaleWorld() {
    for (Process& process : processes_) process.engine.reset();
  }

  Engine& engine(Rank rank) { return *processes_[rank].engine; }
  DatagramTransport& transport(Rank rank) { return *processes_[rank].transport; }
  Instant now() const { return queue_.now(); }

  uint32_t processes() const { return static_cast<uint32_t>(processes_.size()); }

  void submit(Rank rank, const OperationSpec& spec) {
    auto operation = std::make_shared<Operation>(spec, nullptr);
    as(rank, [&] {
      const Status status =
          processes_[rank].engine->submit(now(), processes_[rank].group, operation);
      EXPECT_TRUE(status.ok()) << status.message();
    });
    ++pending_;
  }
  // What has been submitted.
  bool run_until_done() {
    run([this] { return pending_ == 0; }, std::chrono::seconds(60));
    return pending_ == 0;
  }
  // The other processes stop.
  void freeze_all_but_first() { frozen_ = true; }
  void idle(Duration time) {
    run([] { return false; }, time);
  }

  // On behalf of the rank.
  void as(Rank rank, const std::function<void()>& body) {
    std::optional<TrackedHeap::Scope> scope;
    if (rank == 0) scope.emplace();
    body();
  }

 private:
  // Until `done`, at most for `limit`.
  void run(const std::function<bool()>& done, Duration limit) {
    const Instant end = now() + limit;
    while (!done() && now() < end) {
      Instant next = std::min(end, queue_.next_time());
      const Rank ranks = frozen_ ? 1 : processes();
      for (Rank rank = 0; rank < ranks; ++rank) {
        Process& process = processes_[rank];
        as(rank, [&] {
          while (process.engine->step(now())) pending_ -= process.engine->take_completed().size();
          pending_ -= process.engine->take_completed().size();
        });
        next = std::min(next, process.engine->next_deadline());
      }
      queue_.run_until(std::max(next, now() + std::chrono::microseconds(1)));
    }
  }

  struct Process {
    void start(std::unique_ptr<DatagramPort> port, Rank rank, SharedVector<Address> addresses) {
      transport = std::make_unique<DatagramTransport>(std::move(port), ConnectionOptions());
      engine = std::make_unique<Engine>(*transport, EngineOptions());
      GroupSpec spec;
      spec.name = "scale";
      spec.key = {1, 2};
      spec.rank = rank;
      spec.addresses = std::move(addresses);
      group = engine->add_group(std::move(spec)).take();
    }
    std::unique_ptr<DatagramTransport> transport;
    std::unique_ptr<Engine> engine;
    GroupId group = 0;
  };

  EventQueue queue_;
  SimNetwork network_;
  std::vector<Process> processes_;
  size_t pending_ = 0;
  bool frozen_ = false;
};

}  // namespace rocecoll
