// SPDX-License-Identifier: Apache-2.0
// Receives from any source: whose message they take, what they wait for, and how they end.
#include <optional>

#include "base/random.h"
#include "engine/call.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

ClusterOptions Ranks(uint32_t ranks) {
  ClusterOptions options;
  options.ranks = ranks;
  options.fabric.max_frame_bytes = 512;
  options.timeout = seconds(20);
  return options;
}

constexpr size_t kSmall = 5;
constexpr size_t kLarge = 5000;

// Sends and receives of one cluster, and the memory behind them.
class Mail {
 public:
  explicit Mail(Cluster& cluster) : cluster_(cluster) {}

  // The message holds `value` in each element.
  OperationPtr send(Rank from, Rank to, uint32_t tag, int32_t value, size_t size = kSmall) {
    return post(from, Collective::kSend, to, tag, value, size);
  }
  OperationPtr recv(Rank at, std::optional<Rank> from, uint32_t tag, size_t size = kSmall) {
    return post(at, Collective::kRecv, from, tag, -1, size);
  }
  int32_t value(const OperationPtr& operation) const {
    const auto* data = static_cast<const int32_t*>(operation->spec().output.data);
    const uint64_t size = operation->spec().output.partition.total();
    EXPECT_EQ(std::count(data, data + size, data[0]), static_cast<int64_t>(size));
    return data[0];
  }
  void expect(const OperationPtr& recv, Rank from, int32_t value) const {
    EXPECT_TRUE(cluster_.is_done(recv));
    EXPECT_TRUE(recv->status().ok()) << recv->status().message();
    EXPECT_EQ(recv->source(), from);
    EXPECT_EQ(this->value(recv), value);
  }
  bool run() { return cluster_.run_until_done(operations_); }

 private:
  OperationPtr post(Rank rank, Collective collective, std::optional<Rank> peer, uint32_t tag,
                    int32_t value, size_t size) {
    buffers_.push_back(std::make_unique<std::vector<int32_t>>(size, value));
    OperationSpec spec;
    spec.collective = collective;
    spec.type = DataType::kInt32;
    spec.any_source = !peer.has_value();
    spec.root = peer.value_or(12345);
    spec.user_tag = tag;
    OperationBuffer& buffer = collective == Collective::kSend ? spec.input : spec.output;
    buffer = {buffers_.back()->data(), Partition::Even(size, 1)};
    operations_.push_back(cluster_.submit(rank, std::move(spec)));
    return operations_.back();
  }

  Cluster& cluster_;
  std::vector<std::unique_ptr<std::vector<int32_t>>> buffers_;
  std::vector<OperationPtr> operations_;
};

class AnySourceOf : public testing::TestWithParam<std::pair<uint32_t, size_t>> {};

// Posted before any link is open, and after the messages have come.
TEST_P(AnySourceOf, TakesOneMessageOfEachRank) {
  const auto [ranks, size] = GetParam();
  for (const bool receives_first : {true, false}) {
    Cluster cluster(Ranks(ranks));
    Mail mail(cluster);
    std::vector<OperationPtr> received;
    const auto receive_all = [&] {
      for (Rank from = 1; from < ranks; ++from) {
        received.push_back(mail.recv(0, std::nullopt, 7, size));
      }
    };
    if (receives_first) receive_all();
    cluster.settle(milliseconds(1));
    for (Rank from = 1; from < ranks; ++from) mail.send(from, 0, 7, from * 10, size);
    cluster.settle(milliseconds(1));
    if (!receives_first) receive_all();
    ASSERT_TRUE(mail.run());
    std::vector<bool> seen(ranks);
    for (const OperationPtr& recv : received) {
      mail.expect(recv, recv->source(), static_cast<int32_t>(recv->source()) * 10);
      EXPECT_FALSE(seen[recv->source()]);
      seen[recv->source()] = true;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, AnySourceOf,
                         testing::Values(std::pair(2u, kSmall), std::pair(3u, kSmall),
                                         std::pair(5u, kSmall), std::pair(2u, kLarge),
                                         std::pair(3u, kLarge), std::pair(5u, kLarge)));

TEST(AnySource, FirstComeFirstServed) {
  for (const size_t size : {size_t{0} + 1, kLarge}) {
    Cluster cluster(Ranks(4));
    Mail mail(cluster);
    const OperationPtr first = mail.recv(3, std::nullopt, 1, size);
    const OperationPtr other_tag = mail.recv(3, std::nullopt, 2, size);
    const OperationPtr second = mail.recv(3, std::nullopt, 1, size);
    const OperationPtr third = mail.recv(3, std::nullopt, 1, size);
    for (const Rank from : {2, 0, 1}) {
      mail.send(from, 3, 1, from, size);
      cluster.settle(milliseconds(1));
    }
    EXPECT_FALSE(cluster.is_done(other_tag));
    mail.send(1, 3, 2, 77, size);
    ASSERT_TRUE(mail.run());
    mail.expect(first, 2, 2);
    mail.expect(second, 0, 0);
    mail.expect(third, 1, 1);
    mail.expect(other_tag, 1, 77);
  }
  // The same for small messages that wait for their receives, on links that are open.
  Cluster cluster(Ranks(4));
  RunCall(cluster, {.collective = Collective::kBarrier});
  Mail mail(cluster);
  for (const Rank from : {2, 0, 1}) {
    mail.send(from, 3, 1, from);
    cluster.settle(milliseconds(1));
  }
  for (const Rank from : {2, 0, 1}) {
    const OperationPtr recv = mail.recv(3, std::nullopt, 1);
    cluster.settle(milliseconds(1));
    mail.expect(recv, from, static_cast<int32_t>(from));
  }
}

// Named receives keep the messages that were theirs when they were posted.
TEST(AnySource, SharesNumbersWithNamedReceives) {
  for (const size_t size : {kSmall, kLarge}) {
    Cluster cluster(Ranks(3));
    Mail mail(cluster);
    const OperationPtr named = mail.recv(0, 1, 4, size);
    const OperationPtr any = mail.recv(0, std::nullopt, 4, size);
    const OperationPtr later = mail.recv(0, 1, 4, size);
    for (const int32_t value : {10, 11}) mail.send(1, 0, 4, value, size);
    cluster.settle(milliseconds(1));
    mail.expect(named, 1, 10);
    mail.expect(later, 1, 11);
    EXPECT_FALSE(cluster.is_done(any));
    mail.send(1, 0, 4, 12, size);
    ASSERT_TRUE(mail.run());
    mail.expect(any, 1, 12);
    // And once more, now that there is nobody's receive before it.
    const OperationPtr next = mail.recv(0, std::nullopt, 4, size);
    const OperationPtr last = mail.recv(0, 2, 4, size);
    mail.send(1, 0, 4, 13, size);
    mail.send(2, 0, 4, 20, size);
    ASSERT_TRUE(mail.run());
    mail.expect(next, 1, 13);
    mail.expect(last, 2, 20);
  }
}

// The large first message is announced only once somebody listens, the small second one has come:
// the named receive takes the first, which makes the second the next.
TEST(AnySource, MessagesOfOneRankStayInOrder) {
  Cluster cluster(Ranks(2));
  Mail mail(cluster);
  mail.send(1, 0, 0, 1, kLarge);
  mail.send(1, 0, 0, 2);
  mail.send(1, 0, 0, 3, kLarge);
  cluster.settle(milliseconds(1));
  const OperationPtr first = mail.recv(0, std::nullopt, 0, kLarge);
  cluster.settle(milliseconds(1));
  mail.expect(first, 1, 1);
  const OperationPtr second = mail.recv(0, std::nullopt, 0);
  const OperationPtr third = mail.recv(0, std::nullopt, 0, kLarge);
  ASSERT_TRUE(mail.run());
  mail.expect(second, 1, 2);
  mail.expect(third, 1, 3);
}

// The sender has spent its credit on messages with another tag that nobody receives yet.
TEST(AnySource, ServesSendersWithoutCredit) {
  for (const bool receives_first : {true, false}) {
    ClusterOptions options = Ranks(3);
    options.messenger.eager_credits = 2;
    Cluster cluster(options);
    Mail mail(cluster);
    std::vector<OperationPtr> received;
    if (receives_first) received.push_back(mail.recv(0, std::nullopt, 7));
    for (int32_t i = 0; i < 6; ++i) mail.send(1, 0, 3, i);
    mail.send(1, 0, 7, 70);
    mail.send(1, 0, 7, 71);
    cluster.settle(milliseconds(1));
    while (received.size() < 2) received.push_back(mail.recv(0, std::nullopt, 7));
    cluster.settle(milliseconds(1));
    mail.expect(received[0], 1, 70);
    mail.expect(received[1], 1, 71);
    for (int32_t i = 0; i < 6; ++i) received.push_back(mail.recv(0, std::nullopt, 3));
    ASSERT_TRUE(mail.run());
    for (int32_t i = 0; i < 6; ++i) mail.expect(received[2 + i], 1, i);
  }
}

// Everything at once: each rank sends to all others, and a part of the receives is named. Whatever
// is received must be the next message from its source.
TEST(AnySource, RandomMixStaysInOrder) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    ClusterOptions options = Ranks(4);
    options.fabric.max_jitter = microseconds(50);
    options.messenger.eager_credits = 2;
    Cluster cluster(options);
    Mail mail(cluster);
    Random random(seed);
    const size_t size = seed % 2 == 0 ? kSmall : kLarge;
    constexpr int32_t kEach = 12;  // messages from each rank to each other one
    struct Post {
      Rank at = 0;
      std::optional<Rank> from;
      OperationPtr operation;
    };
    std::vector<Post> posts;
    for (Rank at = 0; at < 4; ++at) {
      for (Rank from = 0; from < 4; ++from) {
        if (from == at) continue;
        // Named ones first: with receives from any source before it, a rank's message may go to
        // either, and then some named receive would never get one.
        for (int32_t i = 0; i < kEach; ++i) {
          posts.push_back({at, i < kEach / 2 ? std::optional(from) : std::nullopt, nullptr});
        }
      }
    }
    std::stable_partition(posts.begin(), posts.end(), [](const Post& p) { return p.from; });
    std::vector<int32_t> sent(16);
    size_t next_post = 0;
    int32_t left = 4 * 3 * kEach;
    while (left > 0 || next_post < posts.size()) {
      if (next_post < posts.size() && (left == 0 || random.chance(0.5))) {
        Post& post = posts[next_post++];
        post.operation = mail.recv(post.at, post.from, 9, size);
      } else {
        const Rank from = random.below(4);
        const Rank to = random.below(4);
        if (from == to || sent[from * 4 + to] == kEach) continue;
        mail.send(from, to, 9, sent[from * 4 + to]++, size);
        --left;
      }
      if (random.chance(0.3)) cluster.settle(microseconds(20));
    }
    ASSERT_TRUE(mail.run()) << seed;
    std::vector<int32_t> next(16);
    for (const Post& post : posts) {
      ASSERT_TRUE(post.operation->status().ok()) << post.operation->status().message();
      const Rank source = post.operation->source();
      EXPECT_EQ(source, post.from.value_or(source));
      EXPECT_EQ(mail.value(post.operation), next[source * 4 + post.at]++) << seed;
    }
  }
}

TEST(AnySource, MismatchesAreFound) {
  for (const size_t size : {kSmall + 1, kLarge}) {
    Cluster cluster(Ranks(3));
    Mail mail(cluster);
    const OperationPtr recv = mail.recv(0, std::nullopt, 1);
    mail.send(2, 0, 1, 5, size);
    ASSERT_TRUE(cluster.run_until_done({recv}));
    EXPECT_EQ(recv->status().code(), StatusCode::kMismatch) << size;
    EXPECT_NE(recv->status().message().find("rank 2 (sim:2)"), std::string::npos)
        << recv->status().message();
  }
}

TEST(AnySource, TimeoutSaysWhatNobodySent) {
  Cluster cluster(Ranks(3));
  Mail mail(cluster);
  const OperationPtr recv = mail.recv(0, std::nullopt, 11);
  mail.send(1, 0, 12, 5);
  ASSERT_TRUE(cluster.run_until_done({recv}));
  EXPECT_EQ(recv->status().code(), StatusCode::kTimeout);
  EXPECT_NE(recv->status().message().find(
                "timed out after 20 s, waiting for a message with tag 11 from any rank"),
            std::string::npos)
      << recv->status().message();
}

// No other rank has ever touched the dead one: the receive itself watches all of them.
TEST(AnySource, DeathOfAnyRankEndsIt) {
  Cluster cluster(Ranks(4));
  Mail mail(cluster);
  const OperationPtr recv = mail.recv(0, std::nullopt, 1);
  cluster.settle(milliseconds(1));
  cluster.fabric().kill(2);
  ASSERT_TRUE(cluster.run_until_done({recv}, seconds(1)));
  EXPECT_EQ(recv->status().code(), StatusCode::kPeerLost);
  EXPECT_NE(recv->status().message().find("lost rank 2 (sim:2)"), std::string::npos)
      << recv->status().message();
}

TEST(AnySource, RanksThatLeaveAreMissedOnlyWhenAllHaveLeft) {
  Cluster cluster(Ranks(3));
  Mail mail(cluster);
  const OperationPtr first = mail.recv(0, std::nullopt, 1);
  mail.send(1, 0, 2, 21);
  cluster.settle(milliseconds(1));
  cluster.engine(1).remove_group(cluster.group());
  cluster.settle(milliseconds(1));
  mail.send(2, 0, 1, 20);
  cluster.settle(milliseconds(1));
  mail.expect(first, 2, 20);
  const OperationPtr left_behind = mail.recv(0, std::nullopt, 2);
  const OperationPtr never = mail.recv(0, std::nullopt, 3);
  cluster.settle(milliseconds(1));
  mail.expect(left_behind, 1, 21);
  EXPECT_FALSE(cluster.is_done(never));
  cluster.engine(2).remove_group(cluster.group());
  ASSERT_TRUE(cluster.run_until_done({never}, seconds(1)));
  EXPECT_EQ(never->status().code(), StatusCode::kPeerLeft);
  EXPECT_NE(never->status().message().find(
                "every other rank has left the group: rank 1 (sim:1), rank 2 (sim:2); see their "
                "own logs first: they may have raised an exception;"),
            std::string::npos)
      << never->status().message();
}

TEST(AnySource, AbortEndsIt) {
  Cluster cluster(Ranks(2));
  Mail mail(cluster);
  const OperationPtr recv = mail.recv(0, std::nullopt, 1);
  cluster.settle(milliseconds(1));
  cluster.engine(1).abort(cluster.group(), Status(StatusCode::kAborted, "no more"));
  ASSERT_TRUE(cluster.run_until_done({recv}, seconds(1)));
  EXPECT_EQ(recv->status().code(), StatusCode::kAborted);
  EXPECT_NE(recv->status().message().find("no more"), std::string::npos);
}

TEST(AnySource, RefusesWhatMakesNoSense) {
  Cluster alone(Ranks(1));
  OperationSpec spec;
  spec.collective = Collective::kRecv;
  spec.any_source = true;
  int32_t value = 0;
  spec.type = DataType::kInt32;
  spec.output = {&value, Partition::Even(1, 1)};
  Status status;
  alone.submit(0, spec, 0, &status);
  EXPECT_NE(status.message().find("no other rank"), std::string::npos) << status.message();
  Cluster cluster(Ranks(2));
  spec.collective = Collective::kSend;
  spec.input = spec.output;
  cluster.submit(0, spec, 0, &status);
  EXPECT_NE(status.message().find("only a receive"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace rocecoll
