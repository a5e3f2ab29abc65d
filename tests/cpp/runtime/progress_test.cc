// SPDX-License-Identifier: Apache-2.0
// Who drives the engine, over real UDP on loopback: waits from several threads, operations that
// nobody waits for, the order of completion, shutting down.
#include "engine/progress/progress.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>

#include "runtime/runtime.h"
#include "runtime/runtimes.h"

namespace rocecoll {
namespace {

using Next = Progress::Next;

constexpr Duration kLong = std::chrono::seconds(200);

// Runs `body(rank)` on a thread for each rank.
template <typename Body>
void OnEveryRank(Runtimes& runtimes, Body body) {
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < runtimes.ranks(); ++rank) {
    threads.emplace_back([&, rank] { body(rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

// A count that threads wait for.
class Counter {
 public:
  void add() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  bool wait_for(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLong, [&] { return count_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

class ProgressOf : public testing::TestWithParam<uint32_t> {};

TEST_P(ProgressOf, WaitingThreadsDrive) {
  Runtimes runtimes(GetParam());
  OnEveryRank(runtimes, [&](Rank rank) {
    for (size_t size : {1u, 0u, 1000u, 200000u, 3u}) {
      for (int round = 0; round < 20; ++round) {
        std::vector<int32_t> data(size, static_cast<int32_t>(rank) + round);
        const auto op = runtimes.all_reduce(data);
        ASSERT_TRUE(runtimes[rank].submit(runtimes.group(rank), op, Next::kWaits).ok());
        const Status status = runtimes[rank].wait(op, kLong);
        ASSERT_TRUE(status.ok()) << status.message();
        const auto ranks = static_cast<int32_t>(runtimes.ranks());
        ASSERT_EQ(data, std::vector<int32_t>(size, ranks * (ranks - 1) / 2 + ranks * round));
      }
    }
  });
}

TEST_P(ProgressOf, NobodyWaits) {
  constexpr int kOperations = 50;
  Counter completed;
  std::vector<std::vector<int32_t>> data(GetParam() * kOperations, std::vector<int32_t>(5000, 1));
  Runtimes runtimes(GetParam());
  OnEveryRank(runtimes, [&](Rank rank) {
    for (int i = 0; i < kOperations; ++i) {
      const auto op = runtimes.all_reduce(data[rank * kOperations + i]);
      op->set_on_complete([&](const Operation& done) {
        EXPECT_TRUE(done.status().ok()) << done.status().message();
        completed.add();
      });
      ASSERT_TRUE(runtimes[rank].submit(runtimes.group(rank), op, Next::kGoesOn).ok());
    }
  });
  ASSERT_TRUE(completed.wait_for(static_cast<int>(data.size())));
  for (const auto& vector : data) {
    ASSERT_EQ(vector, std::vector<int32_t>(5000, static_cast<int32_t>(runtimes.ranks())));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ProgressOf, testing::Values(1, 2, 3, 4));

// Several threads of each rank wait in another order than they submitted, some for a while only.
TEST(Progress, ManyThreadsWait) {
  Runtimes runtimes(2);
  constexpr int kThreads = 3;
  std::vector<std::vector<GroupId>> groups;
  for (int t = 0; t < kThreads; ++t) {
    groups.push_back(runtimes.add_group("g" + std::to_string(t), 100 + t, kLong));
  }
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < 2; ++rank) {
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, rank, t] {
        for (int round = 0; round < 50; ++round) {
          std::vector<std::vector<int32_t>> data(4, std::vector<int32_t>(100 + round, 1));
          std::vector<OperationPtr> ops;
          for (auto& vector : data) {
            ops.push_back(runtimes.all_reduce(vector));
            const auto next = static_cast<Next>((round + t) % 3);
            ASSERT_TRUE(runtimes[rank].submit(groups[t][rank], ops.back(), next).ok());
          }
          while (runtimes[rank].wait(ops[2], std::chrono::microseconds(50)).code() ==
                 StatusCode::kTimeout) {
          }
          for (const auto& op : {ops[3], ops[0], ops[1], ops[2]}) {
            const Status status = runtimes[rank].wait(op, kLong);
            ASSERT_TRUE(status.ok()) << status.message();
          }
          for (const auto& vector : data) ASSERT_EQ(vector[round], 2);
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

// done, then the callback, then the owner; a callback may submit and wait itself.
TEST(Progress, OrderOfCompletion) {
  Counter finished;
  Counter dropped;  // on a thread that the runtime's end does not wait for
  std::vector<std::vector<int32_t>> first(2, std::vector<int32_t>(10, 1));
  std::vector<std::vector<int32_t>> second(2, std::vector<int32_t>(10, 2));
  std::array<std::atomic<int>, 2> stage{};
  Runtimes runtimes(2);
  OnEveryRank(runtimes, [&](Rank rank) {
    struct Owner {
      ~Owner() {
        EXPECT_EQ(stage->exchange(2), 1) << "dropped before the callback";
        dropped->add();
      }
      std::atomic<int>* stage;
      Counter* dropped;
    };
    auto owner = std::make_shared<Owner>(&stage[rank], &dropped);
    const auto op = runtimes.all_reduce(first[rank], std::move(owner));
    op->set_on_complete([&, rank](const Operation& done) {
      EXPECT_TRUE(done.done());
      const auto next = runtimes.all_reduce(second[rank]);
      EXPECT_TRUE(runtimes[rank].submit(runtimes.group(rank), next, Next::kWaits).ok());
      EXPECT_TRUE(runtimes[rank].wait(next, kLong).ok());
      stage[rank] = 1;
      finished.add();
    });
    ASSERT_TRUE(runtimes[rank]
                    .submit(runtimes.group(rank), op, rank == 0 ? Next::kGoesOn : Next::kWaits)
                    .ok());
    if (rank == 1) {
      EXPECT_TRUE(runtimes[rank].wait(op, kLong).ok());
    }
  });
  ASSERT_TRUE(finished.wait_for(2));
  ASSERT_TRUE(dropped.wait_for(2));
  EXPECT_EQ(second[0], std::vector<int32_t>(10, 4));
  EXPECT_EQ(second[1], std::vector<int32_t>(10, 4));
}

// All_reduce of ten ones over two ranks, which rank 0 no longer waits for: it is completed once
// rank 1 calls it, too.
void ExpectGoesOn(Runtimes& runtimes, const OperationPtr& op, const std::vector<int32_t>& data) {
  EXPECT_FALSE(op->done());
  std::vector<int32_t> of_other(10, 1);
  const auto other = runtimes.all_reduce(of_other);
  ASSERT_TRUE(runtimes[1].submit(runtimes.group(1), other, Next::kWaits).ok());
  EXPECT_TRUE(runtimes[1].wait(other, kLong).ok());
  EXPECT_TRUE(runtimes[0].wait(op, kLong).ok());
  EXPECT_EQ(data, std::vector<int32_t>(10, 2));
}

TEST(Progress, WaitGivesUpAndTheOperationGoesOn) {
  Runtimes runtimes(2);
  std::vector<int32_t> a(10, 1);
  const auto op = runtimes.all_reduce(a);
  ASSERT_TRUE(runtimes[0].submit(runtimes.group(0), op, Next::kWaits).ok());
  EXPECT_EQ(runtimes[0].wait(op, std::chrono::milliseconds(5)).code(), StatusCode::kTimeout);
  ExpectGoesOn(runtimes, op, a);
}

// Who looks drives no more: another thread of the rank drives meanwhile.
TEST(Progress, LooksDuringAWaitThatLastsWithTheRoleGivenUp) {
  Runtimes runtimes(2);
  const std::vector<GroupId> other = runtimes.add_group("other", 2, kLong);
  std::vector<int32_t> late(10, 1);
  std::vector<int32_t> later(10, 1);
  const auto op = runtimes.all_reduce(late);
  const auto its = runtimes.all_reduce(later);
  ASSERT_TRUE(runtimes[0].submit(runtimes.group(0), op, Next::kWaits).ok());
  int looks = 0;
  const auto look = [&] {
    if (++looks != 3) return;
    std::vector<std::vector<int32_t>> data(2, std::vector<int32_t>(10, 1));
    OnEveryRank(runtimes, [&](Rank rank) {
      const auto another = runtimes.all_reduce(data[rank]);
      ASSERT_TRUE(runtimes[rank].submit(other[rank], another, Next::kWaits).ok());
      ASSERT_TRUE(runtimes[rank].wait(another, kLong).ok());
    });
    ASSERT_TRUE(runtimes[1].submit(runtimes.group(1), its, Next::kGoesOn).ok());
  };
  EXPECT_TRUE(runtimes[0].wait(op, kLong, look).ok());
  EXPECT_GE(looks, 3);
  EXPECT_EQ(late, std::vector<int32_t>(10, 2));
}

TEST(Progress, WhatALookThrowsEndsTheWaitAndTheOperationGoesOn) {
  Runtimes runtimes(2);
  std::vector<int32_t> a(10, 1);
  const auto op = runtimes.all_reduce(a);
  ASSERT_TRUE(runtimes[0].submit(runtimes.group(0), op, Next::kWaits).ok());
  const auto look = [] { throw std::runtime_error("enough"); };
  EXPECT_THROW((void)runtimes[0].wait(op, kLong, look), std::runtime_error);
  ExpectGoesOn(runtimes, op, a);
}

TEST(Progress, AWaitThatEndsSoonDoesNotLook) {
  Runtimes runtimes(2);
  std::vector<int32_t> data(10, 1);
  const auto op = runtimes.all_reduce(data);
  ASSERT_TRUE(runtimes[0].submit(runtimes.group(0), op, Next::kWaits).ok());
  const auto look = [] { FAIL() << "looked"; };
  const Status status = runtimes[0].wait(op, std::chrono::milliseconds(5), look);
  EXPECT_EQ(status.code(), StatusCode::kTimeout);
  runtimes[0].abort(runtimes.group(0), Status(StatusCode::kAborted, "enough"));
  EXPECT_EQ(runtimes[0].wait(op, kLong, look).code(), StatusCode::kAborted);
}

TEST(Progress, AbortReachesWaitersOfEveryRank) {
  Runtimes runtimes(3);
  Counter waiting;
  OnEveryRank(runtimes, [&](Rank rank) {
    std::vector<int32_t> data(10, 1);
    if (rank == 2) {
      ASSERT_TRUE(waiting.wait_for(2));
      runtimes[2].abort(runtimes.group(2), Status(StatusCode::kAborted, "enough"));
      const auto op = runtimes.all_reduce(data);
      Status refused = runtimes[2].submit(runtimes.group(2), op, Next::kWaits);
      if (refused.ok()) refused = runtimes[2].wait(op, kLong);  // by the thread
      EXPECT_EQ(refused.code(), StatusCode::kAborted);
      return;
    }
    const auto op = runtimes.all_reduce(data);
    ASSERT_TRUE(runtimes[rank].submit(runtimes.group(rank), op, Next::kWaits).ok());
    waiting.add();
    const Status status = runtimes[rank].wait(op, kLong);
    EXPECT_EQ(status.code(), StatusCode::kAborted);
    EXPECT_NE(status.message().find("enough"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("rank 2"), std::string::npos) << status.message();
  });
}

TEST(Progress, LastOperationsArriveThoughARankShutsDownAtOnce) {
  for (int round = 0; round < 10; ++round) {
    RuntimeOptions options;
    options.fault.loss = 0.2;
    Runtimes runtimes(2, options);
    OnEveryRank(runtimes, [&](Rank rank) {
      std::vector<int32_t> data(10, 1);
      const auto op = runtimes.all_reduce(data);
      ASSERT_TRUE(runtimes[rank].submit(runtimes.group(rank), op, Next::kWaits).ok());
      const Status status = runtimes[rank].wait(op, kLong);
      EXPECT_TRUE(status.ok()) << status.message();
      runtimes[rank].shutdown(std::chrono::seconds(5));
      runtimes[rank].shutdown(std::chrono::seconds(5));
    });
  }
}

TEST(Progress, CountsTheGroupsThatExistAndThoseThatFailed) {
  Runtimes runtimes(1);
  const auto counts = [&] {
    const EngineState state = runtimes[0].state();
    return std::tuple(state.groups, state.failed_groups, state.failures);
  };
  EXPECT_EQ(counts(), std::tuple(1, 0, 0));
  runtimes[0].abort(runtimes.group(0), Status(StatusCode::kAborted, "enough"));
  EXPECT_EQ(counts(), std::tuple(1, 1, 1));
  const GroupId second = runtimes.add_group("second", 2, kLong)[0];
  EXPECT_EQ(counts(), std::tuple(2, 1, 1));
  runtimes[0].remove_group(runtimes.group(0));
  EXPECT_EQ(counts(), std::tuple(1, 0, 1)) << "it has failed all the same";
  runtimes[0].remove_group(second);
  EXPECT_EQ(counts(), std::tuple(0, 0, 1)) << "to leave is no failure";
}

// The receiver has never spoken to the sender, and comes when the sender's process is gone.
TEST(Progress, AMessageArrivesThoughItsSenderHasLeftBeforeTheReceiverCame) {
  Runtimes runtimes(2);
  int32_t sent = 42;
  int32_t received = 0;
  OperationSpec spec;
  spec.collective = Collective::kSend;
  spec.type = DataType::kInt32;
  spec.root = 1;
  spec.input = {&sent, Partition::Even(1, 1)};
  const auto send = std::make_shared<Operation>(spec, nullptr);
  ASSERT_TRUE(runtimes[0].submit(runtimes.group(0), send, Next::kWaits).ok());
  ASSERT_TRUE(runtimes[0].wait(send, kLong).ok());
  runtimes.end(0);
  std::swap(spec.input, spec.output);
  spec.output.data = &received;
  spec.collective = Collective::kRecv;
  spec.root = 0;
  const auto recv = std::make_shared<Operation>(spec, nullptr);
  ASSERT_TRUE(runtimes[1].submit(runtimes.group(1), recv, Next::kWaits).ok());
  const Status status = runtimes[1].wait(recv, kLong);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(received, sent);
}

}  // namespace
}  // namespace rocecoll
