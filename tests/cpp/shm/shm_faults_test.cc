// SPDX-License-Identifier: Apache-2.0
// What the system forbids, and processes that die: real ones, with what really happens to them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/in_child.h"
#include "base/log.h"
#include "conformance/exchange.h"
#include "shm/forbid.h"
#include "shm/holdings.h"
#include "shm/shm_world.h"

namespace rocecoll {
namespace {

constexpr char kTwoCopies[] = "large messages to it in two copies";
constexpr char kNoGreeting[] = "cannot greet its process (sendmsg): Operation not permitted";
constexpr char kNoMemory[] = "no shared memory (memfd_create): Operation not permitted";

std::string LogTexts() {
  std::string all;
  while (const auto entry = TakeLogEntry(Duration{0})) all += entry->text + "\n";
  return all;
}

bool Says(const std::string& log, const std::string& words) {
  return log.find(words) != std::string::npos;
}

// A link between two nodes, over shared memory from the start.
struct Pair {
  explicit Pair(const ShmOptions& options = {}) : world(2, {}, options) {
    std::tie(a, b) = world.connect(0, 1);
    EXPECT_TRUE(world.run([this] { return world.carries(a->id()) && world.carries(b->id()); }));
  }

  ShmWorld world;
  Link* a = nullptr;
  Link* b = nullptr;
};

// Frames and large writes both ways at once, in two halves with something between them.
void ExpectTraffic(Pair& pair, const std::function<void()>& between) {
  constexpr uint32_t kWrites = 6;
  constexpr size_t kFrames = 200;
  std::vector<RandomWrite> there;
  std::vector<RandomWrite> back;
  for (uint32_t i = 0; i < kWrites; ++i) {
    there.emplace_back((9 << 20) + i, i);
    back.emplace_back((5 << 20) + i, 100 + i);
    ASSERT_TRUE(there[i].start(pair.a, pair.b, i) && back[i].start(pair.b, pair.a, i));
  }
  std::vector<Bytes> frames;
  for (size_t i = 0; i < kFrames; ++i) frames.push_back(RandomBytes(1 + i * 100, i));
  size_t sent_there = 0;
  size_t sent_back = 0;
  const auto landed = [&pair](uint32_t count) {
    return pair.world.transferred(pair.a, pair.b, count) &&
           pair.world.transferred(pair.b, pair.a, count);
  };
  const auto send = [&frames](Link* link, size_t& sent) {
    while (sent < frames.size() && link->send_frame(frames[sent])) ++sent;
    return sent == frames.size();
  };
  EXPECT_TRUE(pair.world.run([&] { return !pair.world.record(pair.b).landed.empty(); }));
  send(pair.a, sent_there);  // into the rings, where nobody has looked when it happens
  send(pair.b, sent_back);
  between();
  EXPECT_TRUE(pair.world.run([&] {
    return send(pair.a, sent_there) && send(pair.b, sent_back) && landed(kWrites) &&
           pair.world.record(pair.a).frames.size() == kFrames &&
           pair.world.record(pair.b).frames.size() == kFrames;
  }));
  EXPECT_TRUE(pair.world.record(pair.a).frames == frames);
  EXPECT_TRUE(pair.world.record(pair.b).frames == frames);
  for (uint32_t i = 0; i < kWrites; ++i) {
    EXPECT_TRUE(there[i].source == there[i].target && back[i].source == back[i].target) << i;
  }
  EXPECT_TRUE(pair.world.carries(pair.a->id()) && pair.world.carries(pair.b->id()));
}

TEST(ShmFaults, WhereMemoryCannotBeReadLargeWritesGoInTwoCopies) {
  EXPECT_TRUE(InChild([] {
    Forbid(SYS_process_vm_readv);
    Pair pair;
    ExpectTraffic(pair, [] {});
    return Says(LogTexts(), kTwoCopies);
  }));
}

TEST(ShmFaults, MemoryMayBecomeUnreadableAtAnyTime) {
  EXPECT_TRUE(InChild([] {
    Pair pair;
    EXPECT_FALSE(Says(LogTexts(), kTwoCopies));
    ExpectTraffic(pair, [] { Forbid(SYS_process_vm_readv); });
    return Says(LogTexts(), kTwoCopies);
  }));
}

TEST(ShmFaults, WithoutSharedMemoryTheNetworkCarries) {
  EXPECT_TRUE(InChild([] {
    Forbid(SYS_memfd_create);
    ShmWorld world(2);
    ExchangeAll(world, {.write_sizes = {1, 100000}, .frames = 20});
    return !world.carries(Between(0, 1)) && !world.carries(Between(1, 0));
  }));
}

TEST(ShmFaults, WithoutMoreSharedMemoryTheNetworkCarriesAndPeopleLearnWhy) {
  EXPECT_TRUE(InChild([] {
    ShmWorld world(2);
    Forbid(SYS_memfd_create);
    ExchangeAll(world, {.write_sizes = {1, 100000}, .frames = 20});
    return !world.carries(Between(0, 1)) && Says(LogTexts(), kNoMemory);
  }));
}

// At once, not when the time for the proof is over.
TEST(ShmFaults, WhereNoGreetingMayBeSentTheNetworkCarriesAndPeopleLearnWhy) {
  EXPECT_TRUE(InChild([] {
    ShmOptions options;
    options.proof_timeout = std::chrono::hours(1);
    RefuseGreetings(EPERM);
    ShmWorld world(2, {}, options);
    ExchangeAll(world,
                {.write_sizes = {1, 100000}, .frames = 20, .limit = std::chrono::seconds(30)});
    return !world.carries(Between(0, 1)) && Says(LogTexts(), kNoGreeting);
  }));
}

// What the sender has in its ring was confirmed before it looks at what became of its write.
TEST(ShmFaults, AWriteIsConfirmedThoughFramesFollowAtOnce) {
  Pair pair;
  RandomWrite write(100000, 1);
  ASSERT_TRUE(write.start(pair.a, pair.b, 1));
  pair.world[0].poll(pair.world.now());
  ASSERT_TRUE(pair.world.run([&] { return pair.world.record(pair.b).landed.size() == 1; },
                             std::chrono::seconds(60), /*idle=*/{0}));
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(pair.a->send_frame(Text("frame")));
  EXPECT_TRUE(pair.world.run([&] { return pair.world.record(pair.a).written.size() == 1; },
                             std::chrono::seconds(10)));
}

TEST(ShmFaults, ARingThatNobodyReadsTakesWhatItHoldsAndNoMore) {
  Pair pair;
  constexpr size_t kBytes = 1000;
  constexpr size_t kCount = 5000;
  size_t sent = 0;
  const auto send = [&] {
    while (sent < kCount && pair.a->send_frame(RandomBytes(kBytes, sent))) ++sent;
    return sent == kCount;
  };
  for (int i = 0; i < 100; ++i) {
    send();
    pair.world[0].poll(pair.world.now());
  }
  EXPECT_GT(sent, 50u);
  EXPECT_LE(sent, kRingBytes / kBytes);
  ASSERT_TRUE(
      pair.world.run([&] { return send() && pair.world.record(pair.b).frames.size() == kCount; }));
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(pair.world.record(pair.b).frames[i], RandomBytes(kBytes, i)) << i;
  }
}

// Both in turns, so that the number of polls says how far the write is; and the reader in a thread
// of its own, which may be anywhere.
void CloseWhileLent(size_t polls, bool beside) {
  Pair pair;
  RandomWrite write(24 << 20, 1);
  const Bytes original = write.source;
  ASSERT_TRUE(write.start(pair.a, pair.b, 1));
  const auto read = [&pair] { pair.world[1].poll(pair.world.now()); };
  std::atomic<bool> over{false};
  std::thread reader([&] {
    while (beside && !over.load()) read();
  });
  for (size_t i = 0; i < polls; ++i) {
    pair.world[0].poll(pair.world.now());
    if (!beside) read();
  }
  pair.a->close(Status(StatusCode::kAborted, "no more"));
  std::ranges::fill(write.source, std::byte{0xee});
  over.store(true);
  reader.join();
  ASSERT_TRUE(pair.world.run([&] { return pair.world.is_down(pair.b); }));
  const bool landed = !pair.world.record(pair.b).landed.empty();
  EXPECT_TRUE(!landed || write.target == original) << polls << " polls, beside " << beside;
  EXPECT_EQ(pair.b->status().code(), StatusCode::kAborted);
}

TEST(ShmFaults, WhatIsTakenBackWhileItIsFetchedNeverLandsWrong) {
  for (size_t polls = 0; polls < 12; ++polls) {
    CloseWhileLent(polls, /*beside=*/false);
    CloseWhileLent(polls * polls * 5, /*beside=*/true);
  }
}

TEST(ShmFaults, SharedMemoryIsNotExecutableWhereTheSystemCanSeeToThat) {
  constexpr int kSealExec = 0x20;  // F_SEAL_EXEC
  const Descriptor probe(::memfd_create("test", MFD_CLOEXEC | kNoexecSeal));
  if (!probe.valid()) GTEST_SKIP() << "this kernel has no seal against execution";
  const auto made = SharedSegment::Create(4096);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_NE(::fcntl(made.value().descriptor(), F_GET_SEALS) & kSealExec, 0);
}

TEST(ShmFaults, SharedMemoryIsThereOnSystemsThatKnowNoSuchSeal) {
  std::thread([] {
    KnowNoNoexecSeal();
    const auto made = SharedSegment::Create(4096);
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_TRUE(SharedSegment::Map(Descriptor(::dup(made.value().descriptor())), 4096).ok());
  }).join();
}

TEST(ShmFaults, ARingHasPagesOnlyForWhatMostPairsNeed) {
  std::string mode;
  std::ifstream("/proc/sys/vm/overcommit_memory") >> mode;
  const auto made = SharedSegment::Create(kRingSegmentBytes, kReadyRingBytes);
  ASSERT_TRUE(made.ok()) << made.status().message();
  const auto bytes_with_pages = [&made] {
    struct stat facts{};
    EXPECT_EQ(::fstat(made.value().descriptor(), &facts), 0);
    return static_cast<size_t>(facts.st_blocks) * 512;
  };
  EXPECT_EQ(bytes_with_pages(), mode == "2" ? kRingSegmentBytes : kReadyRingBytes);
  std::memset(made.value().data(), 1, kRingSegmentBytes);
  EXPECT_EQ(bytes_with_pages(), kRingSegmentBytes);
}

TEST(ShmFaults, ManyLinksLeaveNothingBehind) {
  constexpr uint64_t kLinks = 200;
  ShmWorld world(2);
  const Holdings before = Holdings::Now();
  for (uint64_t round = 0; round < 4; ++round) {
    std::vector<std::pair<Link*, Link*>> links;
    for (uint64_t i = 1; i <= kLinks; ++i) {
      links.push_back(world.connect(0, 1, round * kLinks + i));
      ASSERT_TRUE(links.back().first->send_frame(Text("x")));
    }
    ASSERT_TRUE(world.run([&] {
      return std::ranges::all_of(
                 links,
                 [&](const auto& link) { return !world.record(link.second).frames.empty(); }) &&
             world.links_on_path(0) == kLinks && world.links_on_path(1) == kLinks;
    }));
    EXPECT_GT(Holdings::Now().mappings, before.mappings);
    for (size_t i = 0; i < links.size(); ++i) {
      links[i].first->close(i % 2 == 0 ? Status() : Status(StatusCode::kAborted, "enough"));
    }
    ASSERT_TRUE(world.run([&] {
      return std::ranges::all_of(links, [&](const auto& l) { return world.is_down(l.second); });
    }));
    for (const auto& link : links) link.second->close(Status());
    ASSERT_TRUE(world.run([&] { return !world.lingering() && Holdings::Now() == before; }))
        << Holdings::Now().text();
  }
}

}  // namespace
}  // namespace rocecoll
