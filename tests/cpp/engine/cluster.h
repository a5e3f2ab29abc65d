// SPDX-License-Identifier: Apache-2.0
// Engines of many ranks over the link-level simulator, in one thread and virtual time.
#pragma once

#include "engine/engine_cluster.h"
#include "transport/sim/sim_fabric.h"
#include "transport/sim/sim_transport.h"

namespace rocecoll {

struct ClusterOptions {
  uint32_t ranks = 2;
  std::vector<uint32_t> hosts = {};  // by rank; empty: one host
  EngineOptions engine;
  MessengerOptions messenger;
  SimFabricOptions fabric;
  Duration timeout = std::chrono::minutes(30);
};

inline ClusterOptions ForRanks(uint32_t ranks, Duration timeout = std::chrono::seconds(60)) {
  ClusterOptions options;
  options.ranks = ranks;
  options.timeout = timeout;
  return options;
}

class Cluster final : public EngineCluster {
 public:
  explicit Cluster(const ClusterOptions& options)
      : EngineCluster(options.messenger, options.timeout, options.hosts),
        fabric_(FabricOptions(options)) {
    for (Rank r = 0; r < options.ranks; ++r) add_rank(fabric_.transport(r), options.engine);
    start();
  }
  ~Cluster() override {
    for (Rank r = 0; r < ranks(); ++r) remove_rank(r);
  }

  SimFabric& fabric() { return fabric_; }
  Instant now() const override { return fabric_.now(); }
  bool run(const std::function<bool()>& done, Duration limit = std::chrono::minutes(60)) override {
    return RunUntil(
        fabric_, [this](uint32_t rank, Instant time) { return step(rank, time); }, done, limit);
  }

 private:
  static SimFabricOptions FabricOptions(const ClusterOptions& options) {
    SimFabricOptions fabric = options.fabric;
    fabric.endpoints = options.ranks;
    return fabric;
  }

  SimFabric fabric_;
};

}  // namespace rocecoll
