// SPDX-License-Identifier: Apache-2.0
// Few tags are kept, and no message gets lost or mixed up when its tag is counted anew.
#include "engine/tags/tag_retirement.h"

#include <array>

#include "base/random.h"
#include "engine/call.h"
#include "messenger/message_wire.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

ClusterOptions Crowded(uint32_t ranks, uint64_t first_number = 0) {
  ClusterOptions options;
  options.ranks = ranks;
  options.engine.max_idle_tag_runs = 0;
  options.fabric.max_frame_bytes = 512;
  options.fabric.max_queued_frames = 3;  // questions and answers find no room
  options.fabric.max_jitter = microseconds(20);
  options.messenger.eager_credits = 2;
  options.timeout = seconds(60);
  options.engine.first_number = first_number;
  return options;
}

struct Letter {
  std::vector<int32_t> data;
  OperationPtr operation;
};

OperationPtr Post(Cluster& cluster, Rank rank, Collective collective, Rank peer, uint32_t tag,
                  std::vector<int32_t>& data, bool any_source = false) {
  OperationSpec spec;
  spec.collective = collective;
  spec.type = DataType::kInt32;
  spec.root = peer;
  spec.user_tag = tag;
  spec.any_source = any_source;
  (collective == Collective::kSend ? spec.input : spec.output) = {data.data(),
                                                                  Partition::Even(data.size(), 1)};
  return cluster.submit(rank, spec);
}

class TagRetirementTest : public testing::TestWithParam<uint64_t> {
 protected:
  // With every other seed the numbers of messages wrap around soon.
  static uint64_t first_number() { return GetParam() % 2 == 0 ? 0 : (uint64_t{1} << 32) - 2; }
};

// Three ranks send each other messages with few tags for long, small and large ones, each end at
// its own pace and the receives at times long before the sends: with equal tags they match in
// order.
TEST_P(TagRetirementTest, EqualTagsMatchInOrder) {
  Cluster cluster(Crowded(3, first_number()));
  Random random(GetParam());
  constexpr uint32_t kMessages = 150;
  constexpr uint32_t kTags = 4;
  struct Stream {
    Rank rank = 0;
    Rank peer = 0;
    Collective kind = Collective::kSend;
    uint64_t seed = 0;  // the same at both ends
    uint32_t posted = 0;
    std::vector<Letter> letters{kMessages};
  };
  std::vector<Stream> streams;
  for (Rank from = 0; from < 3; ++from) {
    const Rank to = (from + 1) % 3;
    streams.push_back({.rank = from, .peer = to, .kind = Collective::kSend, .seed = from});
    streams.push_back({.rank = to, .peer = from, .kind = Collective::kRecv, .seed = from});
  }
  const auto post = [&](Stream& stream) {
    Random same(GetParam() * 1000 + stream.seed * 100000 + stream.posted);
    const auto tag = static_cast<uint32_t>(same.below(kTags));
    const bool sends = stream.kind == Collective::kSend;
    const auto value = static_cast<int32_t>(stream.posted);
    Letter& letter = stream.letters[stream.posted++];
    letter.data.assign(same.chance(0.5) ? 4 : 400, sends ? value : -1);
    letter.operation = Post(cluster, stream.rank, stream.kind, stream.peer, tag * 3, letter.data);
  };
  std::vector<OperationPtr> operations;
  while (operations.size() < streams.size() * kMessages) {
    Stream& stream = streams[random.below(streams.size())];
    for (uint64_t left = 1 + random.below(6); left > 0 && stream.posted < kMessages; --left) {
      post(stream);
      operations.push_back(stream.letters[stream.posted - 1].operation);
    }
    if (random.chance(0.3)) cluster.settle(microseconds(static_cast<int64_t>(random.below(60))));
  }
  ASSERT_TRUE(cluster.run_until_done(operations));
  for (const OperationPtr& operation : operations) {
    ASSERT_TRUE(operation->status().ok()) << operation->status().message();
  }
  for (size_t i = 0; i < streams.size(); i += 2) {
    for (uint32_t k = 0; k < kMessages; ++k) {
      ASSERT_EQ(streams[i + 1].letters[k].data, streams[i].letters[k].data) << k;
    }
  }
}

// Receives from any source among them: each message is received once.
TEST_P(TagRetirementTest, AnySourceGetsEveryMessageOnce) {
  Cluster cluster(Crowded(3, first_number()));
  Random random(GetParam() + 50);
  std::vector<OperationPtr> operations;
  std::deque<Letter> letters;
  std::vector<const Letter*> received;
  const auto post = [&](Rank rank, Collective kind, uint32_t tag, int32_t value) {
    Letter& letter = letters.emplace_back();
    letter.data.assign(tag % 2 == 0 ? 4 : 400, value);
    letter.operation = Post(cluster, rank, kind, 0, tag, letter.data, kind == Collective::kRecv);
    operations.push_back(letter.operation);
    if (kind == Collective::kRecv) received.push_back(&letter);
  };
  for (int32_t round = 0; round < 100; ++round) {
    const auto tag = static_cast<uint32_t>(random.below(4) * 5);
    const auto from = static_cast<Rank>(1 + random.below(2));
    const bool receive_first = random.chance(0.5);
    if (receive_first) post(0, Collective::kRecv, tag, -1);
    if (random.chance(0.5)) cluster.settle(microseconds(static_cast<int64_t>(random.below(60))));
    post(from, Collective::kSend, tag, round);
    if (random.chance(0.5)) cluster.settle(microseconds(static_cast<int64_t>(random.below(60))));
    if (!receive_first) post(0, Collective::kRecv, tag, -1);
  }
  ASSERT_TRUE(cluster.run_until_done(operations));
  std::vector<bool> seen(100, false);
  for (const Letter* letter : received) {
    ASSERT_TRUE(letter->operation->status().ok()) << letter->operation->status().message();
    const auto value = static_cast<size_t>(letter->data[0]);
    ASSERT_LT(value, seen.size());
    ASSERT_FALSE(seen[value]) << value;
    seen[value] = true;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, TagRetirementTest, testing::Range<uint64_t>(1, 9));

// The answer never comes.
TEST(TagRetirement, AHeldBackSendFailsWhenItsRankLeaves) {
  Cluster cluster(Crowded(2));
  std::vector<int32_t> sent(1), received(1);
  const OperationPtr send = Post(cluster, 0, Collective::kSend, 1, 5, sent);
  const OperationPtr recv = Post(cluster, 1, Collective::kRecv, 0, 5, received);
  ASSERT_TRUE(cluster.run([&] { return cluster.is_done(recv); }));
  cluster.engine(1).remove_group(cluster.group());
  const OperationPtr held = Post(cluster, 0, Collective::kSend, 1, 5, sent);
  ASSERT_TRUE(cluster.run_until_done({send, held}, seconds(1)));
  EXPECT_EQ(held->status().code(), StatusCode::kPeerLeft) << held->status().message();
}

// Two ends by themselves, so that what they keep can be looked at.
struct End {
  End(SimFabric& fabric, Rank self)
      : messenger(fabric.transport(self), GroupKey{1, 2}, self,
                  {fabric.transport(0).address(), fabric.transport(1).address()}, {}),
        retirement(messenger, numbers, kIdleRuns) {}
  static constexpr size_t kIdleRuns = 50;

  Messenger messenger;
  MessageNumbers numbers;
  TagRetirement retirement;
};

class TwoEnds {
 public:
  TwoEnds() : ends_{End(fabric_, 0), End(fabric_, 1)} {}
  End& operator[](size_t i) { return ends_[i]; }
  SimFabric& fabric() { return fabric_; }
  // An empty message.
  void send(uint32_t tag) {
    ends_[0].messenger.send(fabric_.now(), 1, {ends_[0].numbers.take_send(1, tag), 0, 0}, {}, {},
                            0);
    ends_[0].retirement.on_send(1);
  }
  void recv(uint32_t tag) {
    ends_[1].messenger.recv(fabric_.now(), 0, {ends_[1].numbers.take_receive(0, tag), 0, 0}, {}, {},
                            0);
  }
  void settle() {
    const auto step = [this](uint32_t rank, Instant now) {
      End& end = ends_[rank];
      std::array<Event, 8> events;
      while (const size_t count = fabric_.transport(rank).poll(now, events)) {
        for (size_t i = 0; i < count; ++i) end.messenger.on_event(now, events[i]);
      }
      end.messenger.flush(now);
      MessageCompletion completion;
      while (end.messenger.poll(completion)) {
      }
      end.retirement.step([](Rank, bool) { return std::vector<uint32_t>(); });
      return kNever;
    };
    RunUntil(fabric_, step, [] { return false; }, milliseconds(1));
  }

 private:
  SimFabric fabric_{{}};
  std::array<End, 2> ends_;
};

TEST(TagRetirement, BothEndsKeepFewTags) {
  TwoEnds ends;
  Random random(3);
  for (int i = 0; i < 20000; ++i) {
    const auto tag = static_cast<uint32_t>(random.below(uint64_t{1} << 31));
    ends.recv(tag);
    ends.send(tag);
    if (i % 20 == 0) ends.settle();
    for (size_t end : {0, 1}) ASSERT_LE(ends[end].numbers.entries(), 2 * End::kIdleRuns) << end;
  }
}

TEST(TagRetirement, TagsInUseAreKeptAndNotAskedAboutAllTheTime) {
  TwoEnds ends;
  for (uint32_t tag = 0; tag < 200; ++tag) {
    for (int i = 0; i < 2; ++i) ends.recv(tag * 2);  // one more than is sent
    ends.send(tag * 2);
    if (tag % 20 == 0) ends.settle();
  }
  ends.settle();
  EXPECT_EQ(ends[1].numbers.entries(), 200u);
  EXPECT_EQ(ends[0].numbers.entries(), 200u);
  EXPECT_FALSE(ends[0].retirement.holds(1, 4));
  const uint64_t before = ends.fabric().transport(0).stats().packets_sent;
  for (int i = 0; i < 100; ++i) ends.settle();
  EXPECT_EQ(ends.fabric().transport(0).stats().packets_sent, before);
}

TEST(TagRetirement, WhatNoRankOfOursSaysIsAnOffence) {
  {
    TwoEnds ends;  // an answer to nothing
    ends[1].messenger.listen(ends.fabric().now());
    ends[0].messenger.accept(ends.fabric().now(), 1);
    const std::array<TagRun, 1> runs{TagRun{1, 2, 3}};
    ends[1].messenger.send_retire(0, true, runs);
    ends.settle();
    EXPECT_NE(ends[0].retirement.offence().find("nobody had asked"), std::string::npos);
    EXPECT_EQ(ends[0].retirement.offender(), 1u);
  }
  TwoEnds ends;  // more questions than answers
  ends[1].messenger.listen(ends.fabric().now());
  ends[0].messenger.accept(ends.fabric().now(), 1);
  const std::array<TagRun, 1> runs{TagRun{1, 2, 3}};
  for (int i = 0; i < 100; ++i) ends[1].messenger.send_retire(0, false, runs);
  const auto idle = [](uint32_t, Instant) { return kNever; };
  RunUntil(ends.fabric(), idle, [] { return false; }, milliseconds(1));
  ends.settle();
  EXPECT_NE(ends[0].retirement.offence().find("more tags"), std::string::npos);
}

}  // namespace
}  // namespace rocecoll
