// SPDX-License-Identifier: Apache-2.0
// Receives from any source over the real reliability layer, on a network that loses, duplicates and
// reorders packets.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "base/random.h"
#include "engine/engine.h"
#include "transport/datagram/datagram_transport.h"
#include "transport/sim/event_queue.h"
#include "transport/sim/sim_network.h"
#include "transport/sim/sim_port.h"

namespace rocecoll {
namespace {

class PacketCluster {
 public:
  PacketCluster(uint32_t ranks, uint64_t seed, const SimWire& wire)
      : network_(queue_, seed, wire), completed_(ranks) {
    GroupSpec spec;
    spec.name = "default";
    spec.timeout = std::chrono::minutes(5);
    spec.messenger.eager_credits = 4;
    std::vector<Address> addresses;
    for (Rank r = 0; r < ranks; ++r) {
      transports_.push_back(
          std::make_unique<DatagramTransport>(network_.add_endpoint(), ConnectionOptions{}));
      addresses.push_back(transports_[r]->address());
    }
    spec.addresses = std::move(addresses);
    for (Rank r = 0; r < ranks; ++r) {
      engines_.push_back(std::make_unique<Engine>(*transports_[r], EngineOptions{}));
      spec.rank = r;
      group_ = engines_[r]->add_group(spec).value();
    }
  }

  // `memory` holds one int32_t for each element; `peer` is not read for any source.
  OperationPtr submit(Rank rank, Collective collective, bool any_source, Rank peer, uint32_t tag,
                      std::vector<int32_t>& memory) {
    OperationSpec spec;
    spec.collective = collective;
    spec.type = DataType::kInt32;
    spec.any_source = any_source;
    spec.root = peer;
    spec.user_tag = tag;
    spec.input = {memory.data(), Partition::Even(memory.size(), 1)};
    spec.output = spec.input;
    auto operation = std::make_shared<Operation>(std::move(spec), nullptr);
    const Status status = engines_[rank]->submit(queue_.now(), group_, operation);
    EXPECT_TRUE(status.ok()) << status.message();
    return operation;
  }
  bool run(const std::function<bool()>& done, Duration limit) {
    const Instant end = queue_.now() + limit;
    while (true) {
      Instant next = kNever;
      for (Rank r = 0; r < engines_.size(); ++r) {
        if (!engines_[r]) continue;
        while (engines_[r]->step(queue_.now())) {
        }
        for (auto& operation : engines_[r]->take_completed()) completed_[r].push_back(operation);
        next = std::min(next, engines_[r]->next_deadline());
      }
      if (done()) return true;
      next = std::min(next, queue_.next_time());
      if (next > end) return false;
      queue_.run_until(std::max(next, queue_.now() + Duration(1)));
    }
  }
  void settle(Duration time) {
    run([] { return false; }, time);
  }
  // Nothing of what the rank would say when it ends reaches anybody.
  void kill(Rank rank) {
    for (Rank other = 0; other < engines_.size(); ++other) {
      if (other != rank) network_.wire(rank, other).blocked = true;
    }
    engines_[rank].reset();
    transports_[rank].reset();
  }
  const std::vector<OperationPtr>& completed(Rank rank) const { return completed_[rank]; }

 private:
  EventQueue queue_;
  SimNetwork network_;
  std::vector<std::unique_ptr<DatagramTransport>> transports_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<std::vector<OperationPtr>> completed_;
  GroupId group_ = 0;
};

class AnySourceNetwork : public testing::TestWithParam<double> {};

// Tag 0 is small, tag 1 above the eager limit. Every third receive is for rank 1 by name.
TEST_P(AnySourceNetwork, EveryMessageOnce) {
  constexpr size_t kSizes[] = {3, 20000};
  constexpr int32_t kEach = 30;  // messages of each sender, by tag
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SimWire wire;
    wire.loss = GetParam();
    wire.duplicate = GetParam();
    wire.reorder = 2 * GetParam();
    PacketCluster cluster(4, seed, wire);
    Random random(seed);
    std::deque<std::vector<int32_t>> memory;
    int32_t sent[4][2] = {};
    std::vector<OperationPtr> received[2];
    uint32_t posts_left = 3 * kEach * 2 * 2;
    while (posts_left > 0) {
      const auto tag = static_cast<uint32_t>(random.below(2));
      const auto rank = static_cast<Rank>(random.below(4));
      if (rank > 0 && sent[rank][tag] < kEach) {
        memory.emplace_back(kSizes[tag], sent[rank][tag]++);
        cluster.submit(rank, Collective::kSend, false, 0, tag, memory.back());
      } else if (rank == 0 && received[tag].size() < 3 * kEach) {
        memory.emplace_back(kSizes[tag], -1);
        const bool named = received[tag].size() < kEach && received[tag].size() % 3 == 0;
        received[tag].push_back(
            cluster.submit(0, Collective::kRecv, !named, 1, tag, memory.back()));
      } else {
        continue;
      }
      --posts_left;
      if (random.chance(0.3)) cluster.settle(std::chrono::microseconds(random.below(300)));
    }
    ASSERT_TRUE(cluster.run([&] { return cluster.completed(0).size() == 6 * kEach; },
                            std::chrono::minutes(2)));
    for (const uint32_t tag : {0u, 1u}) {
      std::vector<int32_t> values[4];
      for (const OperationPtr& recv : received[tag]) {
        ASSERT_TRUE(recv->status().ok()) << recv->status().message();
        const auto* data = static_cast<const int32_t*>(recv->spec().output.data);
        ASSERT_EQ(std::count(data, data + kSizes[tag], data[0]), static_cast<int>(kSizes[tag]));
        values[recv->source()].push_back(data[0]);
      }
      for (Rank from = 1; from < 4; ++from) {
        std::sort(values[from].begin(), values[from].end());
        ASSERT_EQ(values[from].size(), static_cast<size_t>(kEach));
        for (int32_t i = 0; i < kEach; ++i) EXPECT_EQ(values[from][i], i);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Loss, AnySourceNetwork, testing::Values(0.0, 0.05, 0.2));

// Nobody but the waiting rank has a link to the dead one.
TEST(AnySourceNetwork, SilentDeathOfARankEndsTheReceive) {
  PacketCluster cluster(3, 1, SimWire{});
  std::vector<int32_t> memory(1);
  const OperationPtr recv = cluster.submit(0, Collective::kRecv, true, 0, 0, memory);
  cluster.settle(std::chrono::milliseconds(10));
  cluster.kill(2);
  ASSERT_TRUE(cluster.run([&] { return !cluster.completed(0).empty(); }, std::chrono::seconds(30)));
  EXPECT_EQ(recv->status().code(), StatusCode::kPeerLost);
  EXPECT_NE(recv->status().message().find("lost rank 2"), std::string::npos)
      << recv->status().message();
}

}  // namespace
}  // namespace rocecoll
