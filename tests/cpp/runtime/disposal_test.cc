// SPDX-License-Identifier: Apache-2.0
// What operations kept alive may take long to let go, as a tensor does while Python's lock is held
// elsewhere: whoever drives the engine goes on.
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/progress/disposer.h"
#include "runtime/runtime.h"
#include "runtime/runtimes.h"

namespace rocecoll {
namespace {

using Next = Progress::Next;

constexpr Duration kPatience = std::chrono::seconds(30);

class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 2 * kPatience, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

// Its end needs an open gate.
struct Stuck {
  ~Stuck() { EXPECT_TRUE(gate->wait()); }
  Gate* gate;
};

class Disposal : public testing::Test {
 protected:
  ~Disposal() override { gate_.open(); }

  // An all_reduce that nobody waits for, of all ranks; with an owner that gets stuck on rank 0.
  using Ends = std::vector<std::promise<void>>;
  void start(const std::shared_ptr<Ends>& ended) {
    for (Rank rank = 0; rank < 2; ++rank) {
      std::shared_ptr<void> owner;
      if (rank == 0) owner = std::make_shared<Stuck>(&gate_);
      const auto op = runtimes_.all_reduce(data_[rank], std::move(owner));
      op->set_on_complete([=](const Operation&) { (*ended)[rank].set_value(); });
      ASSERT_TRUE(runtimes_[rank].submit(runtimes_.group(rank), op, Next::kGoesOn).ok());
    }
  }
  // Several of them, one after the other, each behind the stuck owner of the one before.
  void expect_progress() {
    for (int round = 0; round < 3; ++round) {
      const auto ended = std::make_shared<Ends>(2);
      start(ended);
      for (auto& end : *ended) {
        ASSERT_EQ(end.get_future().wait_for(kPatience), std::future_status::ready) << round;
      }
    }
  }

  Gate gate_;
  std::vector<std::vector<int32_t>> data_{2, std::vector<int32_t>(10, 1)};
  Runtimes runtimes_{2};
};

TEST_F(Disposal, TheBackgroundThreadGoesOn) { expect_progress(); }

TEST_F(Disposal, ADriverGoesOn) {
  const auto groups = runtimes_.add_group("other", 2, kPatience * 4);
  std::vector<int32_t> last(10, 1);
  const auto waited_for = runtimes_.all_reduce(last);
  ASSERT_TRUE(runtimes_[0].submit(groups[0], waited_for, Next::kWaits).ok());
  std::thread driver([&] { EXPECT_TRUE(runtimes_[0].wait(waited_for, kPatience * 4).ok()); });
  expect_progress();
  std::vector<int32_t> others(10, 1);
  const auto completing = runtimes_.all_reduce(others);
  EXPECT_TRUE(runtimes_[1].submit(groups[1], completing, Next::kGoesOn).ok());
  driver.join();
}

TEST(Disposer, LetsGoOnAThreadOfItsOwnAndDrains) {
  Gate gate;
  Disposer disposer;
  std::promise<std::thread::id> dropped;
  struct Tells {
    ~Tells() { dropped->set_value(std::this_thread::get_id()); }
    std::promise<std::thread::id>* dropped;
  };
  Owners owners{std::make_shared<Stuck>(&gate), std::make_shared<Tells>(&dropped)};
  disposer.let_go(owners);
  EXPECT_TRUE(owners.empty());
  disposer.drain(Duration{0});  // returns, though nothing has gone
  gate.open();
  disposer.drain(kPatience);
  std::future<std::thread::id> by = dropped.get_future();
  ASSERT_EQ(by.wait_for(Duration{0}), std::future_status::ready);
  EXPECT_NE(by.get(), std::this_thread::get_id());
}

TEST(Disposer, DrainsWithoutALimit) {
  std::promise<void> drained;
  bool early = false;
  // Gives a drain() that does not wait the time to return before it.
  struct Slow {
    ~Slow() {
      const auto state = drained.get_future().wait_for(std::chrono::milliseconds(100));
      early = state == std::future_status::ready;
    }
    std::promise<void>& drained;
    bool& early;
  };
  Disposer disposer;
  Owners owners{std::make_shared<Slow>(drained, early)};
  disposer.let_go(owners);
  disposer.drain(Duration::max());
  drained.set_value();
  disposer.drain(kPatience);
  EXPECT_FALSE(early);
}

// As when a runtime's last holder is what one of its operations kept alive.
TEST(Disposer, MayEndOnItsOwnThread) {
  auto disposer = std::make_shared<Disposer>();
  std::promise<void> ended;
  struct Tells {
    ~Tells() { ended->set_value(); }
    std::promise<void>* ended;
  };
  Disposer& used = *disposer;
  Owners owners;
  owners.push_back(std::make_shared<Tells>(&ended));
  owners.push_back(std::move(disposer));
  used.let_go(owners);
  EXPECT_EQ(ended.get_future().wait_for(kPatience), std::future_status::ready);
}

}  // namespace
}  // namespace rocecoll
