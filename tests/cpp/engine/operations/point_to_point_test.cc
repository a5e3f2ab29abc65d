// SPDX-License-Identifier: Apache-2.0
// Sends and receives: odd orders, tags, sizes, and beside collectives.
#include "base/random.h"
#include "engine/call.h"

namespace rocecoll {
namespace {

struct Message {
  Message(size_t elements, int32_t fill) : data(elements, fill) {}

  OperationSpec spec(Collective collective, Rank peer, uint32_t tag) {
    OperationSpec op;
    op.collective = collective;
    op.type = DataType::kInt32;
    op.root = peer;
    op.user_tag = tag;
    OperationBuffer& buffer = collective == Collective::kSend ? op.input : op.output;
    buffer = {data.data(), Partition::Even(data.size(), 1)};
    return op;
  }
  std::vector<int32_t> data;
};

class PointToPoint : public testing::TestWithParam<uint64_t> {};

// Every rank sends to every other; receives are posted in another order than the sends, and among
// equal tags in the same one.
TEST_P(PointToPoint, AnyOrder) {
  ClusterOptions options;
  options.ranks = 4;
  options.fabric.max_frame_bytes = 512;
  options.fabric.max_jitter = std::chrono::microseconds(50);
  options.messenger.eager_credits = 2;
  Cluster cluster(options);
  Random random(GetParam());
  struct Post {
    Rank rank;
    Rank peer;
    Collective collective;
    uint32_t tag;
    Message* message;
  };
  std::vector<std::unique_ptr<Message>> messages;
  std::vector<Post> posts;
  std::vector<std::pair<Message*, Message*>> pairs;
  for (Rank from = 0; from < 4; ++from) {
    for (Rank to = 0; to < 4; ++to) {
      for (uint32_t tag = 0; from != to && tag < 8; ++tag) {
        const size_t size = tag == 0 ? 0 : size_t{1} << (2 * tag);
        messages.push_back(std::make_unique<Message>(size, from * 100 + to * 10 + tag));
        Message* sent = messages.back().get();
        messages.push_back(std::make_unique<Message>(size, -1));
        pairs.emplace_back(sent, messages.back().get());
        posts.push_back({from, to, Collective::kSend, tag, sent});
        posts.push_back({to, from, Collective::kRecv, tag, messages.back().get()});
      }
    }
  }
  for (size_t i = posts.size(); i > 1; --i) std::swap(posts[i - 1], posts[random.below(i)]);
  std::vector<OperationPtr> operations;
  for (const Post& post : posts) {
    operations.push_back(
        cluster.submit(post.rank, post.message->spec(post.collective, post.peer, post.tag)));
    if (random.chance(0.2)) cluster.settle(std::chrono::microseconds(10));
  }
  ASSERT_TRUE(cluster.run_until_done(operations));
  for (const auto& op : operations) ASSERT_TRUE(op->status().ok()) << op->status().message();
  for (const auto& [sent, received] : pairs) ASSERT_EQ(sent->data, received->data);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PointToPoint, testing::Range<uint64_t>(1, 6));

TEST(SendRecv, EqualTagsMatchInOrder) {
  Cluster cluster({});
  std::vector<std::unique_ptr<Message>> messages;
  std::vector<OperationPtr> operations;
  for (int i = 0; i < 50; ++i) {
    messages.push_back(std::make_unique<Message>(i % 2 == 0 ? 3 : 5000, i));
    operations.push_back(cluster.submit(0, messages.back()->spec(Collective::kSend, 1, 7)));
  }
  for (int i = 0; i < 50; ++i) {
    messages.push_back(std::make_unique<Message>(i % 2 == 0 ? 3 : 5000, -1));
    operations.push_back(cluster.submit(1, messages.back()->spec(Collective::kRecv, 0, 7)));
  }
  ASSERT_TRUE(cluster.run_until_done(operations));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(messages[50 + i]->data, messages[i]->data);
}

// A receive that is posted before a collective and answered after it does not hold it up.
TEST(SendRecv, BesideCollectives) {
  Cluster cluster({});
  Message received(10, -1);
  Message sent(10, 4);
  const OperationPtr recv = cluster.submit(0, received.spec(Collective::kRecv, 1, 0));
  for (int i = 0; i < 20; ++i) RunCall(cluster, {.elements = 1000});
  EXPECT_FALSE(cluster.is_done(recv));
  cluster.submit(1, sent.spec(Collective::kSend, 0, 0));
  ASSERT_TRUE(cluster.run_until_done({recv}));
  EXPECT_EQ(received.data, sent.data);
}

TEST(SendRecv, SizesAndTypesMustAgree) {
  {
    Cluster cluster({});
    Message sent(10, 4);
    Message received(11, -1);
    cluster.submit(0, sent.spec(Collective::kSend, 1, 0));
    const OperationPtr recv = cluster.submit(1, received.spec(Collective::kRecv, 0, 0));
    ASSERT_TRUE(cluster.run_until_done({recv}));
    EXPECT_EQ(recv->status().code(), StatusCode::kMismatch);
    EXPECT_NE(recv->status().message().find("44 bytes"), std::string::npos);
    EXPECT_NE(recv->status().message().find("40"), std::string::npos) << recv->status().message();
  }
  Cluster cluster({});
  Message sent(10, 4);
  Message received(10, -1);
  cluster.submit(0, sent.spec(Collective::kSend, 1, 0));
  OperationSpec spec = received.spec(Collective::kRecv, 0, 0);
  spec.type = DataType::kFloat32;
  const OperationPtr recv = cluster.submit(1, spec);
  ASSERT_TRUE(cluster.run_until_done({recv}));
  EXPECT_EQ(recv->status().code(), StatusCode::kMismatch);
}

}  // namespace
}  // namespace rocecoll
