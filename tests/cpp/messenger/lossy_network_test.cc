// SPDX-License-Identifier: Apache-2.0
// The same promises over the real reliability layer, on a network that loses, duplicates, reorders
// and corrupts packets.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>

#include "base/random.h"
#include "messenger/world.h"
#include "transport/datagram/datagram_transport.h"
#include "transport/sim/event_queue.h"
#include "transport/sim/sim_network.h"
#include "transport/sim/sim_port.h"

namespace rocecoll {
namespace {

class LossyWorld {
 public:
  LossyWorld(uint32_t ranks, uint64_t seed, const SimWire& wire, const MessengerOptions& options)
      : network_(queue_, seed, wire), done_(ranks) {
    std::vector<Address> addresses;
    for (Rank r = 0; r < ranks; ++r) {
      transports_.push_back(
          std::make_unique<DatagramTransport>(network_.add_endpoint(), ConnectionOptions{}));
      addresses.push_back(transports_[r]->address());
    }
    for (Rank r = 0; r < ranks; ++r) {
      messengers_.push_back(
          std::make_unique<Messenger>(*transports_[r], GroupKey{1, 2}, r, addresses, options));
    }
  }

  Messenger& operator[](Rank rank) { return *messengers_[rank]; }
  Instant now() const { return queue_.now(); }
  const std::set<uint64_t>& done(Rank rank) const { return done_[rank]; }
  void kill(Rank rank) {
    messengers_[rank]->fail(Status(StatusCode::kAborted, "killed"));
    messengers_[rank].reset();
    transports_[rank].reset();
  }
  bool run(const std::function<bool()>& done, Duration limit) {
    const Instant end = now() + limit;
    while (true) {
      for (Rank r = 0; r < messengers_.size(); ++r) step(r);
      if (done()) return true;
      Instant next = queue_.next_time();
      for (Rank r = 0; r < messengers_.size(); ++r) {
        if (!messengers_[r]) continue;
        next = std::min({next, transports_[r]->next_deadline(), messengers_[r]->next_deadline()});
      }
      if (next > end) return false;
      queue_.run_until(std::max(next, now() + Duration(1)));
    }
  }

 private:
  void step(Rank r) {
    if (!messengers_[r]) return;
    Event events[16];
    size_t count;
    do {
      count = transports_[r]->poll(now(), events);
      for (size_t i = 0; i < count; ++i) messengers_[r]->on_event(now(), events[i]);
      messengers_[r]->flush(now());
    } while (count > 0);
    // What flush() queued leaves with the next poll.
    ASSERT_EQ(transports_[r]->poll(now(), {}), 0u);
    MessageCompletion completion;
    while (messengers_[r]->poll(completion)) {
      EXPECT_TRUE(done_[r].insert(completion.token).second) << "completed twice";
    }
  }

  EventQueue queue_;
  SimNetwork network_;
  std::vector<std::unique_ptr<DatagramTransport>> transports_;
  std::vector<std::unique_ptr<Messenger>> messengers_;
  std::vector<std::set<uint64_t>> done_;
};

struct Fault {
  double loss, duplicate, reorder, corrupt;
};

class LossyNetworkTest : public testing::TestWithParam<Fault> {
 protected:
  static SimWire Wire() {
    SimWire wire;
    wire.loss = GetParam().loss;
    wire.duplicate = GetParam().duplicate;
    wire.reorder = GetParam().reorder;
    wire.corrupt = GetParam().corrupt;
    return wire;
  }
};

TEST_P(LossyNetworkTest, RandomExchange) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const uint32_t ranks = 2 + static_cast<uint32_t>(random.below(4));
    MessengerOptions options;
    options.eager_credits = 1 + static_cast<uint32_t>(random.below(16));
    LossyWorld world(ranks, seed, Wire(), options);
    struct Transfer {
      Rank from, to;
      Payload sent, received;
    };
    std::deque<Transfer> transfers;
    std::vector<uint32_t> posts;
    for (uint32_t i = 0; i < 120; ++i) {
      const Rank from = static_cast<Rank>(random.below(ranks));
      const Rank to = (from + 1 + static_cast<Rank>(random.below(ranks - 1))) % ranks;
      const size_t size = random.chance(0.7) ? random.below(1500) : random.below(60000);
      transfers.push_back({from, to, Payload(size, i), Payload::Blank(size)});
      posts.push_back(2 * i);
      posts.push_back(2 * i + 1);
    }
    for (size_t i = posts.size(); i > 1; --i) std::swap(posts[i - 1], posts[random.below(i)]);
    for (uint32_t post : posts) {
      Transfer& t = transfers[post / 2];
      const Tag tag = CollectiveTag(4, post / 2);
      if (post % 2 == 0) {
        world[t.from].send(world.now(), t.to, tag, PrintOf(1), t.sent.slice(), post);
      } else {
        world[t.to].recv(world.now(), t.from, tag, PrintOf(1), t.received.slice(), post);
      }
      if (random.chance(0.2)) {
        world.run([] { return false; }, std::chrono::microseconds(random.below(300)));
      }
    }
    const auto all = [&] {
      size_t count = 0;
      for (Rank r = 0; r < ranks; ++r) count += world.done(r).size();
      return count == posts.size();
    };
    ASSERT_TRUE(world.run(all, std::chrono::seconds(60)));
    for (const Transfer& t : transfers) EXPECT_EQ(t.received, t.sent);
    for (Rank r = 0; r < ranks; ++r) EXPECT_EQ(world[r].failure(), nullptr);
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, LossyNetworkTest,
                         testing::Values(Fault{0, 0, 0, 0}, Fault{0.05, 0.05, 0.1, 0.01},
                                         Fault{0.2, 0, 0, 0}));

TEST(LossyNetwork, DeathOfAPeerFailsWhatIsPending) {
  LossyWorld world(2, 1, SimWire{}, MessengerOptions{});
  Payload small(8), large(50000), into(8);
  world[0].send(world.now(), 1, CollectiveTag(1), PrintOf(1), small.slice(), 1);
  world[1].recv(world.now(), 0, CollectiveTag(1), PrintOf(1), into.slice(), 1);
  ASSERT_TRUE(world.run([&] { return world.done(1).contains(1); }, std::chrono::seconds(1)));
  world[0].send(world.now(), 1, CollectiveTag(2), PrintOf(1), large.slice(), 2);
  world.kill(1);
  ASSERT_TRUE(world.run([&] { return world[0].failure() != nullptr; }, std::chrono::seconds(60)));
  EXPECT_EQ(world[0].failure()->peer, 1u);
  EXPECT_FALSE(world.done(0).contains(2));
}

}  // namespace
}  // namespace rocecoll
