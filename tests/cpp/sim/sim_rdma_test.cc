// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/sim_rdma.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/rdma_pair.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST_F(SimRdmaTest, SendTakesAReceiveRequestAndIsAcknowledgedAfterARoundTrip) {
  b_.post_receives(2);
  post(send(7, "hello"));
  run(microseconds(5) - Duration(1));
  EXPECT_TRUE(b_.poll().empty());
  run(Duration(1));
  const Completions received = b_.poll();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].kind, WorkCompletion::Kind::kReceive);
  EXPECT_EQ(received[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(received[0].queue_pair, b_.queue_pair->number());
  EXPECT_EQ(received[0].id, 0u);
  EXPECT_EQ(received[0].bytes, 5u);
  EXPECT_EQ(TextOf(b_.buffer_of(0).first(5)), "hello");
  EXPECT_TRUE(a_.device->arm());
  run(microseconds(5));
  EXPECT_FALSE(a_.device->arm());
  const Completions sent = a_.poll();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind, WorkCompletion::Kind::kSend);
  EXPECT_EQ(sent[0].id, 7u);
  EXPECT_EQ(sent[0].queue_pair, a_.queue_pair->number());
}

TEST_F(SimRdmaTest, AWriteReadsItsSourceWhenItLands) {
  post(write(1, 10, 4));
  std::fill_n(a_.source.begin(), 4, std::byte{'x'});  // the sender breaks its promise
  run(milliseconds(1));
  EXPECT_EQ(TextOf(std::span(b_.target).subspan(9, 6)), std::string("\0xxxx\0", 6));
  EXPECT_EQ(Outcomes(a_.poll()), (Expected{{1, CompletionStatus::kSuccess}}));
  EXPECT_TRUE(b_.poll().empty());
}

TEST_F(SimRdmaTest, InlinedPayloadsAreCopiedWhenPosted) {
  b_.post_receives(1);
  SendRequest request = send(1, "before");
  request.inlined = true;
  request.local_key = 0;
  post(request);
  std::fill(a_.source.begin(), a_.source.end(), std::byte{'x'});
  run(milliseconds(1));
  EXPECT_EQ(TextOf(b_.buffer_of(0).first(6)), "before");
}

TEST_F(SimRdmaTest, AWriteWithImmediateTakesAReceiveRequest) {
  b_.post_receives(1);
  SendRequest request = write(1, 0, 100);
  request.kind = Kind::kWriteWithImmediate;
  request.immediate = 0xabcdef;
  post(request);
  SendRequest empty;
  empty.kind = Kind::kWriteWithImmediate;
  empty.immediate = 5;
  post(empty);
  run(milliseconds(1));
  Completions received = b_.poll();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].kind, WorkCompletion::Kind::kReceiveImmediate);
  EXPECT_EQ(received[0].immediate, 0xabcdefu);
  EXPECT_EQ(received[0].bytes, 100u);
  b_.post_receives(1);  // the request that waited for it proceeds at once
  received = b_.poll();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].immediate, 5u);
  EXPECT_EQ(received[0].bytes, 0u);
}

TEST_F(SimRdmaTest, PlacesInTheSendQueueAreFreeOnceALaterCompletionIsPolled) {
  std::vector<SendRequest> batch;
  for (uint64_t id = 0; id < 12; ++id) {
    batch.push_back(write(id, 0, 1));
    batch.back().signaled = id == 5;
  }
  EXPECT_EQ(a_.queue_pair->post(batch), 8u);
  run(milliseconds(1));
  EXPECT_EQ(a_.queue_pair->post(batch), 0u);
  EXPECT_EQ(Outcomes(a_.poll()), (Expected{{5, CompletionStatus::kSuccess}}));
  // 6 and 7 still count, because no completion has reported their end.
  EXPECT_EQ(a_.queue_pair->post(batch), 6u);
  run(milliseconds(1));
  EXPECT_EQ(a_.poll().size(), 1u);
}

TEST_F(SimRdmaTest, TheSharedReceiveQueueIsBounded) {
  std::vector<ReceiveRequest> batch(10, {0, b_.buffer_of(0), b_.buffer_region.local_key});
  EXPECT_EQ(b_.device->post_receives(batch), 8u);
  EXPECT_EQ(b_.device->post_receives(batch), 0u);
}

TEST_F(SimRdmaTest, ASendWithoutAReceiverFailsAfterABoundedTime) {
  post(send(1, "x", false));
  post(send(2, "y", false));
  run(milliseconds(10));
  EXPECT_TRUE(a_.poll().empty());
  run(milliseconds(1));
  EXPECT_EQ(Outcomes(a_.poll()),
            (Expected{{1, CompletionStatus::kReceiverNotReady}, {2, CompletionStatus::kFlushed}}));
  post(send(3, "z", false));
  EXPECT_EQ(Outcomes(a_.poll()), (Expected{{3, CompletionStatus::kFlushed}}));
}

TEST_F(SimRdmaTest, WritesOutsideWhatThePeerOffersAreDenied) {
  const MemoryRegion hidden = b_.device->register_memory(b_.target, RemoteAccess::kNone).value();
  struct Case {
    uint64_t address;
    uint32_t key;
    size_t size;
  };
  const auto base = reinterpret_cast<uint64_t>(b_.target.data());
  const Case cases[] = {{base + kMemoryBytes - 3, b_.region.remote_key, 4},
                        {base - 1, b_.region.remote_key, 4},
                        {UINT64_MAX - 1, b_.region.remote_key, 4},
                        {base, b_.region.local_key, 4},
                        {base, hidden.remote_key, 4},
                        {base, 0, 4}};
  for (const Case& wrong : cases) {
    auto from = a_.device->create_queue_pair().take();
    auto to = b_.device->create_queue_pair().take();
    ASSERT_TRUE(from->connect(to->address()).ok());
    ASSERT_TRUE(to->connect(from->address()).ok());
    SendRequest request = write(1, 0, wrong.size);
    request.remote_address = wrong.address;
    request.remote_key = wrong.key;
    ASSERT_EQ(from->post({&request, 1}), 1u);
    request = write(2, 0, 1);
    ASSERT_EQ(from->post({&request, 1}), 1u);
    ASSERT_EQ(to->post({&request, 1}), 1u);  // B's own requests are flushed as well
    run(milliseconds(1));
    EXPECT_EQ(Outcomes(a_.poll()),
              (Expected{{1, CompletionStatus::kAccessDenied}, {2, CompletionStatus::kFlushed}}));
    EXPECT_EQ(b_.poll().size(), 1u);
    request = write(3, 0, 1);
    ASSERT_EQ(to->post({&request, 1}), 1u);
    EXPECT_EQ(Outcomes(b_.poll()), (Expected{{3, CompletionStatus::kFlushed}}));
  }
  EXPECT_EQ(b_.target, std::vector<std::byte>(kMemoryBytes));
}

TEST_F(SimRdmaTest, NothingLandsInMemoryThatWasDeregistered) {
  post(write(1, 0, 8));
  std::fill_n(a_.source.begin(), 8, std::byte{'x'});
  run(microseconds(4));
  b_.device->deregister(b_.region);
  run(milliseconds(1));
  EXPECT_EQ(Outcomes(a_.poll()), (Expected{{1, CompletionStatus::kAccessDenied}}));
  EXPECT_EQ(b_.target, std::vector<std::byte>(kMemoryBytes));
}

TEST_F(SimRdmaTest, OneWriteLandsUnnoticedOnAQueuePairThatFailed) {
  b_.post_receives(1);
  std::fill_n(a_.source.begin(), 8, std::byte{'x'});
  post(write(1, 8, 8));
  post(write(2, 0, 8));
  post(send(3, "frame"));
  run(microseconds(4));
  b_.queue_pair->fail();
  run(milliseconds(100));
  EXPECT_TRUE(a_.poll().empty());
  run(milliseconds(1));
  EXPECT_EQ(Outcomes(a_.poll()), (Expected{{1, CompletionStatus::kRetryExceeded},
                                           {2, CompletionStatus::kFlushed},
                                           {3, CompletionStatus::kFlushed}}));
  EXPECT_TRUE(b_.poll().empty());  // the device keeps the receive request
  std::vector<std::byte> first_landed(kMemoryBytes);
  std::copy_n(a_.source.begin(), 8, first_landed.begin() + 8);
  EXPECT_EQ(b_.target, first_landed);
}

TEST_F(SimRdmaTest, NothingLandsOnceTheQueuePairIsDestroyed) {
  std::fill_n(a_.source.begin(), 8, std::byte{'x'});
  post(write(1, 0, 8));
  run(microseconds(4));
  b_.queue_pair->fail();
  b_.queue_pair = b_.device->create_queue_pair().take();
  run(milliseconds(101));
  EXPECT_EQ(Outcomes(a_.poll()), (Expected{{1, CompletionStatus::kRetryExceeded}}));
  EXPECT_EQ(b_.target, std::vector<std::byte>(kMemoryBytes));
}

TEST_F(SimRdmaTest, AKeyThatIsNoMoreIsRefusedAlsoByAQueuePairThatFailed) {
  post(write(1, 0, 8));
  run(microseconds(4));
  b_.queue_pair->fail();
  b_.device->deregister(b_.region);
  std::fill_n(a_.source.begin(), 8, std::byte{'x'});
  run(milliseconds(101));
  EXPECT_EQ(b_.target, std::vector<std::byte>(kMemoryBytes));
}

TEST_F(SimRdmaTest, WhatHadLeftBeforeAFailureStillArrivesWhileTheMemoryIsFreeAgain) {
  b_.post_receives(1);
  post(send(1, "gone"));
  a_.queue_pair->fail();
  EXPECT_EQ(Outcomes(a_.poll()), (Expected{{1, CompletionStatus::kFlushed}}));
  std::fill(a_.source.begin(), a_.source.end(), std::byte{'x'});
  run(milliseconds(1));
  ASSERT_EQ(b_.poll().size(), 1u);
  EXPECT_EQ(TextOf(b_.buffer_of(0).first(4)), "gone");
}

TEST_F(SimRdmaTest, AMessageLongerThanItsBufferFailsBothEnds) {
  b_.post_receives(1, 4);
  post(send(1, "too long"));
  run(milliseconds(1));
  EXPECT_EQ(Outcomes(a_.poll()), (Expected{{1, CompletionStatus::kFailed}}));
  const Completions received = b_.poll();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].status, CompletionStatus::kFailed);
  EXPECT_EQ(received[0].kind, WorkCompletion::Kind::kReceive);
}

TEST_F(SimRdmaTest, UnregisteredSourcesFailTheRequest) {
  SendRequest request = write(1, 0, 8);
  request.local_key = b_.region.remote_key;
  post(request);
  run(milliseconds(1));
  EXPECT_EQ(Outcomes(a_.poll()), (Expected{{1, CompletionStatus::kFailed}}));
}

class SimRdmaBandwidthTest : public SimRdmaTest {
 protected:
  SimRdmaBandwidthTest() : SimRdmaTest(SimRdmaOptions{.bytes_per_second = 1e9}) {}
};

TEST_F(SimRdmaBandwidthTest, BytesTakeTimeAtThePort) {
  post(write(1, 0, 3000));
  post(write(2, 0, 1000));
  run(microseconds(13) - Duration(1));
  EXPECT_TRUE(a_.poll().empty());
  run(Duration(1));
  EXPECT_EQ(Outcomes(a_.poll()), (Expected{{1, CompletionStatus::kSuccess}}));
  run(microseconds(1));
  EXPECT_EQ(Outcomes(a_.poll()), (Expected{{2, CompletionStatus::kSuccess}}));
}

// Numbered frames of several queue pairs under jitter: the frames of each arrive in order, and the
// same seed gives the same trace.
uint64_t RdmaTrace(uint64_t seed) {
  EventQueue queue;
  SimRdmaFabric fabric(queue, {.seed = seed, .max_jitter = microseconds(50)});
  Node a(fabric, SimRdmaFabric::DefaultLimits());
  Node b(fabric, SimRdmaFabric::DefaultLimits());
  std::vector<std::unique_ptr<RdmaQueuePair>> from;
  std::vector<std::unique_ptr<RdmaQueuePair>> to;
  std::map<uint32_t, uint32_t> received;  // by queue pair: the next number
  for (int i = 0; i < 3; ++i) {
    from.push_back(a.device->create_queue_pair().take());
    to.push_back(b.device->create_queue_pair().take());
    EXPECT_TRUE(from.back()->connect(to.back()->address()).ok());
    EXPECT_TRUE(to.back()->connect(from.back()->address()).ok());
  }
  b.post_receives(16);
  for (uint32_t number = 0; number < 50; ++number) {
    for (auto& queue_pair : from) {
      SendRequest request;
      request.inlined = true;
      request.payload = std::as_bytes(std::span(&number, 1));
      EXPECT_EQ(queue_pair->post({&request, 1}), 1u);
    }
    queue.run_until(queue.now() + microseconds(10));
    for (const WorkCompletion& completion : b.poll()) {
      uint32_t got = 0;
      std::memcpy(&got, b.buffer_of(completion.id).data(), sizeof(got));
      EXPECT_EQ(got, received[completion.queue_pair]++);
      b.post_receives(1);
    }
  }
  queue.run_until(queue.now() + milliseconds(1));
  EXPECT_GE(received.size(), 3u);
  return fabric.trace_digest();
}

TEST(SimRdmaFabric, OneSeedOneTraceInOrder) {
  EXPECT_EQ(RdmaTrace(3), RdmaTrace(3));
  EXPECT_NE(RdmaTrace(3), RdmaTrace(4));
}

}  // namespace
}  // namespace rocecoll
