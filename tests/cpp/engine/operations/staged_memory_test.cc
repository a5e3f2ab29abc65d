// SPDX-License-Identifier: Apache-2.0
// Operations whose memory comes and goes by lanes: order, lookahead, overlap, results, errors.
#include <optional>

#include "base/random.h"
#include "engine/call.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Every copy to the host takes up to 50 us, one after the other, as on a stream.
std::function<DeviceScript(Rank)> RandomDelays(Cluster& cluster) {
  return [&cluster](Rank rank) -> DeviceScript {
    auto random = std::make_shared<Random>(rank + 1);
    auto arrivals = std::make_shared<std::map<uint32_t, Instant>>();
    auto stream = std::make_shared<Instant>();
    return [&cluster, random, arrivals, stream](DeviceCall call, uint32_t lane) -> Result<bool> {
      const Instant now = cluster.fabric().now();
      if (call == DeviceCall::kFetch) {
        *stream = std::max(*stream, now) + microseconds(random->below(50));
        (*arrivals)[lane] = *stream;
      }
      return call != DeviceCall::kFetched || now >= (*arrivals)[lane];
    };
  };
}

// What `rank` answers to `call` for `lane` and later ones; anything else succeeds at once.
std::function<DeviceScript(Rank)> Answer(Rank rank, DeviceCall call, uint32_t lane,
                                         const Result<bool>& answer) {
  return [=](Rank asked) -> DeviceScript {
    return [=](DeviceCall made, uint32_t of) -> Result<bool> {
      return asked == rank && made == call && of >= lane ? answer : Result<bool>(true);
    };
  };
}

ClusterOptions StagedLanes(uint32_t ranks) {
  ClusterOptions options;
  options.ranks = ranks;
  options.engine.lane_bytes = 4096;
  options.engine.max_lanes_in_flight = 3;
  options.fabric.max_frame_bytes = 512;
  options.timeout = std::chrono::seconds(10);
  return options;
}

class StagedMemoryOf : public testing::TestWithParam<uint32_t> {};

TEST_P(StagedMemoryOf, EveryCollective) {
  const uint32_t ranks = GetParam();
  Cluster cluster(StagedLanes(ranks));
  for (const Collective collective :
       {Collective::kAllreduce, Collective::kReduce, Collective::kReduceScatter,
        Collective::kBroadcast, Collective::kAllgather, Collective::kGather, Collective::kScatter,
        Collective::kAlltoall, Collective::kBarrier}) {
    for (const uint64_t elements : {0u, 1u, 101u, 9001u}) {
      CallSpec spec{.collective = collective,
                    .elements = elements,
                    .root = static_cast<Rank>(elements % ranks),
                    .device = RandomDelays(cluster)};
      RunCall(cluster, spec);
      if (collective == Collective::kAllreduce || collective == Collective::kReduce) {
        spec.in_place = true;
        RunCall(cluster, spec);
      }
    }
  }
  for (const Collective collective :
       {Collective::kAlltoall, Collective::kGather, Collective::kScatter}) {
    for (const uint64_t elements : {0u, 1u, 6u}) {
      RunCall(cluster, {.collective = collective,
                        .elements = elements,
                        .uniform = false,
                        .device = RandomDelays(cluster)});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, StagedMemoryOf, testing::Values(1, 2, 3, 5));

// The device of each rank is asked for exactly what the rank reads, and given what it writes.
TEST(StagedMemory, EachRankMovesOnlyWhatItReadsAndWrites) {
  Cluster cluster(StagedLanes(3));
  const auto calls = [&](Collective collective, Rank rank) {
    Call call(
        cluster,
        {.collective = collective, .elements = 300, .root = 1, .device = RandomDelays(cluster)});
    call.submit_all();
    EXPECT_TRUE(call.run());
    call.check();
    return std::pair(call.device(rank).count(DeviceCall::kFetch),
                     call.device(rank).count(DeviceCall::kStore));
  };
  using Calls = std::pair<size_t, size_t>;
  EXPECT_EQ(calls(Collective::kAllreduce, 0), Calls(1, 1));
  EXPECT_EQ(calls(Collective::kReduce, 0), Calls(1, 0));
  EXPECT_EQ(calls(Collective::kReduce, 1), Calls(1, 1));
  EXPECT_EQ(calls(Collective::kBroadcast, 0), Calls(0, 1));
  EXPECT_EQ(calls(Collective::kBroadcast, 1), Calls(1, 0));
  EXPECT_EQ(calls(Collective::kGather, 0), Calls(1, 0));
  EXPECT_EQ(calls(Collective::kScatter, 0), Calls(0, 1));
  EXPECT_EQ(calls(Collective::kBarrier, 0), Calls(0, 0));
}

// The fake device checks the bound; here it must also be reached, and copies must overlap.
TEST(StagedMemory, FetchesAheadWhileEarlierLanesRunAndLeave) {
  Cluster cluster(StagedLanes(2));
  Call call(cluster, {.elements = 40000, .device = RandomDelays(cluster)});
  call.submit_all();
  ASSERT_TRUE(call.run());
  call.check();
  for (const Rank rank : {0, 1}) {
    const FakeDevice& device = call.device(rank);
    const auto lanes = static_cast<uint32_t>(device.count(DeviceCall::kFetch));
    ASSERT_GT(lanes, 3 * kStagedLanesAhead);
    EXPECT_EQ(device.count(DeviceCall::kStore), lanes);
    for (uint32_t lane = 0; lane + kStagedLanesAhead < lanes; ++lane) {
      const uint32_t last = lane + kStagedLanesAhead - 1;
      EXPECT_LT(device.when(DeviceCall::kFetch, last), device.when(DeviceCall::kFetched, lane));
    }
    EXPECT_LT(device.when(DeviceCall::kStore, 0), device.when(DeviceCall::kFetch, lanes - 1));
    EXPECT_LT(device.when(DeviceCall::kStore, lanes - kStagedLanesAhead),
              device.when(DeviceCall::kFetched, lanes - 1));
  }
}

// A lane that does not come holds up those behind it, not those before it, and is asked for now
// and then: neither late nor so often that it burns a core.
TEST(StagedMemory, LanesWaitForTheirInput) {
  Cluster cluster(StagedLanes(2));
  bool closed = true;
  Call call(cluster, {.elements = 20000, .device = [&](Rank rank) -> DeviceScript {
                        return [&, rank](DeviceCall made, uint32_t lane) -> Result<bool> {
                          return made != DeviceCall::kFetched || rank != 1 || lane < 5 || !closed;
                        };
                      }});
  call.submit_all();
  cluster.settle(milliseconds(1));
  const FakeDevice& device = call.device(1);
  EXPECT_EQ(device.count(DeviceCall::kStore), 5u);
  EXPECT_EQ(device.count(DeviceCall::kFetch), 5 + kStagedLanesAhead);
  cluster.settle(milliseconds(100));
  const size_t asked = device.records().size();
  cluster.settle(milliseconds(100));
  EXPECT_NEAR(device.records().size() - asked, milliseconds(100) / kMaxStagedPollInterval, 2);
  EXPECT_EQ(device.count(DeviceCall::kStore), 5u);
  closed = false;
  cluster.settle(2 * kMaxStagedPollInterval);
  EXPECT_GT(device.count(DeviceCall::kStore), 5u);
  ASSERT_TRUE(call.run());
  call.check();
}

TEST(StagedMemory, TimeoutSaysThatTheDeviceIsLate) {
  Cluster cluster(StagedLanes(2));
  Call call(cluster, {.elements = 20000, .device = Answer(0, DeviceCall::kFetched, 1, false)});
  call.submit(0);
  ASSERT_TRUE(call.run());
  const Status& status = call.operations()[0]->status();
  EXPECT_EQ(status.code(), StatusCode::kTimeout);
  EXPECT_NE(status.message().find("the next waits for this rank's device"), std::string::npos)
      << status.message();
}

TEST(StagedMemory, ErrorsFailEveryRankAndNameTheirs) {
  for (const uint64_t elements : {100u, 20000u}) {
    for (const DeviceCall call : {DeviceCall::kFetch, DeviceCall::kFetched, DeviceCall::kStore}) {
      Cluster cluster(StagedLanes(3));
      RunCall(cluster, {.elements = 100});
      Call failing(cluster, {.elements = elements,
                             .device = Answer(1, call, elements == 100 ? 0 : 4,
                                              Status(StatusCode::kDevice, "device on fire"))});
      failing.submit_all();
      ASSERT_TRUE(cluster.run([&] {
        return !cluster.engine(0).group_status(cluster.group()).ok() &&
               !cluster.engine(2).group_status(cluster.group()).ok();
      }));
      for (Rank rank = 0; rank < 3; ++rank) {
        const Status status = cluster.engine(rank).group_status(cluster.group());
        EXPECT_EQ(status.code(), StatusCode::kDevice) << static_cast<int>(call);
        EXPECT_NE(status.message().find("all_reduce #2"), std::string::npos) << status.message();
        EXPECT_NE(status.message().find("device of rank 1 (sim:1) failed: device on fire"),
                  std::string::npos)
            << status.message();
      }
    }
  }
}

TEST(StagedMemory, NothingIsCalledAfterAnAbort) {
  Cluster cluster(StagedLanes(2));
  Call call(cluster, {.elements = 20000, .device = Answer(1, DeviceCall::kFetched, 2, false)});
  call.submit_all();
  cluster.settle(milliseconds(1));
  EXPECT_GT(call.device(1).count(DeviceCall::kFetch), 2u);
  cluster.engine(1).abort(cluster.group(), Status(StatusCode::kAborted, "no more"));
  const size_t calls = call.device(1).records().size();
  ASSERT_TRUE(call.run());
  cluster.settle(milliseconds(10));
  EXPECT_EQ(call.device(1).records().size(), calls);
  EXPECT_EQ(call.operations()[1]->status().code(), StatusCode::kAborted);
}

// Sends wait for the device, too, and several at once do so side by side.
TEST(StagedMemory, SendAndReceive) {
  Cluster cluster(StagedLanes(3));
  const auto delays = RandomDelays(cluster);
  std::vector<OperationPtr> operations;
  std::vector<std::unique_ptr<FakeDevice>> devices;
  std::vector<std::unique_ptr<std::vector<int32_t>>> buffers;
  const auto post = [&](Rank rank, Rank peer, Collective collective, uint32_t tag, size_t size) {
    const bool sends = collective == Collective::kSend;
    buffers.push_back(std::make_unique<std::vector<int32_t>>(size, sends ? 100 + rank : -1));
    devices.push_back(std::make_unique<FakeDevice>(delays(rank)));
    OperationSpec spec;
    spec.collective = collective;
    spec.type = DataType::kInt32;
    spec.root = peer;
    spec.user_tag = tag;
    (sends ? spec.input : spec.output) = {buffers.back()->data(), Partition::Even(size, 1)};
    devices.back()->mirror(*buffers.back());
    spec.staged = devices.back().get();
    operations.push_back(cluster.submit(rank, std::move(spec)));
  };
  const size_t sizes[] = {0, 1, 300, 50000};
  for (uint32_t tag = 0; tag < std::size(sizes); ++tag) {
    for (Rank rank = 0; rank < 3; ++rank) {
      post(rank, (rank + 1) % 3, Collective::kSend, tag, sizes[tag]);
      post(rank, (rank + 2) % 3, Collective::kRecv, tag, sizes[tag]);
    }
  }
  ASSERT_TRUE(cluster.run_until_done(operations));
  for (const auto& op : operations) ASSERT_TRUE(op->status().ok()) << op->status().message();
  for (size_t i = 0; i < operations.size(); ++i) {
    devices[i]->take_back();
    const OperationSpec& spec = operations[i]->spec();
    const bool sends = spec.collective == Collective::kSend;
    const bool empty = buffers[i]->empty();
    EXPECT_EQ(devices[i]->count(DeviceCall::kFetch), sends && !empty ? 1u : 0u);
    EXPECT_EQ(devices[i]->count(DeviceCall::kStore), sends || empty ? 0u : 1u);
    const int32_t value = sends ? buffers[i]->empty() ? 0 : buffers[i]->front()
                                : 100 + static_cast<int32_t>(spec.root);
    for (const int32_t element : *buffers[i]) ASSERT_EQ(element, value) << i;
  }
}

}  // namespace
}  // namespace rocecoll
