// SPDX-License-Identifier: Apache-2.0
// Engines over the transports of a world.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "conformance/worlds.h"
#include "engine/engine_cluster.h"

namespace rocecoll {

struct WorldClusterOptions {
  EngineOptions engine;
  MessengerOptions messenger;
  Duration timeout = std::chrono::seconds(120);
};

class WorldCluster final : public EngineCluster {
 public:
  explicit WorldCluster(std::unique_ptr<World> world, const WorldClusterOptions& options = {})
      : EngineCluster(options.messenger, options.timeout), world_(std::move(world)) {
    for (const Node& node : world_->nodes) add_rank(*node.transport, options.engine);
    start();
  }
  ~WorldCluster() override {
    for (Rank r = 0; r < ranks(); ++r) remove_rank(r);
  }

  World& world() { return *world_; }
  // The process of that rank dies without a word.
  void kill(Rank rank) {
    remove_rank(rank);
    world_->kill(rank);
  }
  // The world has put another process in the place of one that had died. It is in no group.
  void take_successor(Rank rank) { replace_rank(rank, *world_->nodes[rank].transport, {}); }
  Instant now() const override { return world_->now(); }
  bool run(const std::function<bool()>& done, Duration limit = std::chrono::minutes(3)) override {
    const Instant end = now() + limit;
    while (true) {
      Instant next = end;
      for (Rank r = 0; r < ranks(); ++r) {
        if (has_engine(r)) next = std::min(next, step(r, now()));
      }
      if (done()) return true;
      if (now() >= end) return false;
      world_->wait(next);
    }
  }

 private:
  const std::unique_ptr<World> world_;
};

}  // namespace rocecoll
