// SPDX-License-Identifier: Apache-2.0
// What a path makes of what its peer writes, whether it can be or not.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "shm/holdings.h"
#include "shm/played_peer.h"

namespace rocecoll {
namespace {

TEST_F(PathTest, WhatAnHonestPeerSaysArrives) {
  start();
  expose(1, 100000);
  const Bytes source = RandomBytes(100000, 1);
  peer_.say(Entry(Kind::kFrame), Text("hello"));
  peer_.say(Entry(Kind::kPull, 1, AddressOf(source.data()), source.size()));
  const std::vector<Seen> seen = ring_and_look();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].frame, Text("hello"));
  EXPECT_EQ(seen[1].kind, FastEvent::Kind::kLanded);
  EXPECT_EQ(exposed(), source);
  EXPECT_TRUE(guards_are_whole());
}

TEST_F(PathTest, AFrameOfAnImpossibleSizeFailsThePath) {
  for (const size_t size : {size_t{0}, ShmOptions::kMaxFrameBytes + 1, kMaxRingPayload}) {
    EXPECT_EQ(after(1, Entry(Kind::kFrame), Bytes(size)).kind, FastEvent::Kind::kFailed) << size;
    EXPECT_TRUE(path_->failed());
  }
}

TEST_F(PathTest, AnUnknownMessageFailsThePath) {
  for (const uint32_t kind : {0u, 7u, UINT32_MAX}) {
    EXPECT_EQ(after(1, Entry(static_cast<Kind>(kind))).kind, FastEvent::Kind::kFailed) << kind;
  }
}

TEST_F(PathTest, AWriteOfAnotherSizeThanTheSliceFailsThePathAndWritesNothing) {
  const Bytes source = RandomBytes(5000, 1);
  for (const uint64_t length : {uint64_t{0}, uint64_t{4999}, uint64_t{5001}, UINT64_MAX}) {
    const Seen seen = after(5000, Entry(Kind::kPull, 1, AddressOf(source.data()), length));
    EXPECT_EQ(seen.kind, FastEvent::Kind::kFailed) << length;
    EXPECT_EQ(exposed(), Bytes(5000, std::byte{7}));
  }
}

TEST_F(PathTest, AWriteFromWhereThePeerHasNoMemoryFailsThePath) {
  for (const uint64_t address : {uint64_t{0}, UINT64_MAX - 100, uint64_t{1} << 63}) {
    EXPECT_EQ(after(5000, Entry(Kind::kPull, 1, address, 5000)).kind, FastEvent::Kind::kFailed)
        << address;
  }
}

TEST_F(PathTest, APartThatDoesNotFitFailsThePathAndWritesNothing) {
  const std::vector<std::pair<uint64_t, size_t>> parts{
      {0, 5001}, {1, 4999}, {5000, 1}, {UINT64_MAX, 1}, {UINT64_MAX - 10, 5000}};
  for (const auto& [offset, size] : parts) {
    EXPECT_EQ(after(5000, Entry(Kind::kPart, 1, offset), Bytes(size)).kind,
              FastEvent::Kind::kFailed)
        << size << " bytes at " << offset;
    EXPECT_EQ(exposed(), Bytes(5000, std::byte{7}));
  }
}

TEST_F(PathTest, AWriteIntoWhatIsNotExposedIsAStray) {
  const Bytes source(100);
  for (const RingEntry& entry : {Entry(Kind::kPull, 2, AddressOf(source.data()), 100),
                                 Entry(Kind::kPart, 2, 0), Entry(Kind::kPart, UINT32_MAX, 0)}) {
    const Seen seen = after(100, entry, entry.kind == Kind::kPart ? source : Bytes());
    EXPECT_EQ(seen.kind, FastEvent::Kind::kStray);
    EXPECT_EQ(exposed(), Bytes(100, std::byte{7}));
  }
}

TEST_F(PathTest, ASliceThatWasTakenBackIsNotWritten) {
  start();
  expose(1, 100);
  EXPECT_TRUE(path_->take_back(1));
  peer_.say(Entry(Kind::kPart, 1, 0), Bytes(100));
  ASSERT_EQ(ring_and_look().front().kind, FastEvent::Kind::kStray);
  EXPECT_EQ(exposed(), Bytes(100, std::byte{7}));
}

TEST_F(PathTest, WhatIsRevokedWhileItIsFetchedHasNotLanded) {
  start();
  const Bytes source = RandomBytes(kSeveralFetches, 1);
  fetch_a_part_of(source);
  peer_.victims_header().revoked.store(1);
  const std::vector<Seen> seen = look();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].kind, FastEvent::Kind::kFailed);
}

// Its process has ended, and the number that it had is another one's, here this one's, which can be
// read.
class OfAnotherProcess : public PathTest {
 protected:
  OfAnotherProcess() {
    child_ = ::fork();
    if (child_ == 0) {
      ::pause();
      ::_exit(0);
    }
    Descriptor end(static_cast<int>(::syscall(SYS_pidfd_open, child_, 0)));
    EXPECT_TRUE(end.valid());
    start([&] { peer_.greet_as(*path_, ::getpid(), std::move(end)); });
  }
  ~OfAnotherProcess() override { end_child(); }
  void end_child() {
    if (child_ == 0) return;
    ::kill(child_, SIGKILL);
    EXPECT_GT(::waitpid(std::exchange(child_, 0), nullptr, 0), 0);
  }
  void expect_end(const std::vector<Seen>& seen) {
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].kind, FastEvent::Kind::kFailed);
    EXPECT_EQ(seen[0].text, "its process has ended");
  }

 private:
  pid_t child_ = 0;
};

TEST_F(OfAnotherProcess, MemoryIsNotTakenForThePeers) {
  const Bytes source = RandomBytes(5000, 1);
  expose(1, source.size());
  peer_.say(Entry(Kind::kPull, 1, AddressOf(source.data()), source.size()));
  end_child();
  expect_end(ring_and_look());
}

TEST_F(OfAnotherProcess, MemoryIsNotTakenForTheRestOfAWrite) {
  const Bytes source = RandomBytes(kSeveralFetches, 1);
  fetch_a_part_of(source);
  end_child();
  expect_end(look());
}

TEST_F(OfAnotherProcess, MemoryIsThePeersWhileItLives) {
  const Bytes source = RandomBytes(kSeveralFetches, 1);
  fetch_a_part_of(source);
  const std::vector<Seen> seen = look();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].kind, FastEvent::Kind::kLanded) << seen[0].text;
  EXPECT_EQ(exposed(), source);
}

TEST_F(PathTest, WhatIsFetchedFromAPeerThatRunsAnotherProgramHasNotLanded) {
  start();
  const Bytes source = RandomBytes(kSeveralFetches, 1);
  fetch_a_part_of(source);
  peer_.run_another_program();
  const std::vector<Seen> seen = look();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].kind, FastEvent::Kind::kFailed);
}

// In the generation after one that ended while it was fetched.
TEST_F(PathTest, AWriteThatWasFetchedHalfMayComeInPartsNextTime) {
  start();
  const Bytes source = RandomBytes(kSeveralFetches, 1);
  fetch_a_part_of(source);
  begin_again();
  const std::vector<Seen> seen = send_parts(source, 32000);
  ASSERT_EQ(seen.size(), 1u);
  ASSERT_EQ(seen[0].kind, FastEvent::Kind::kLanded) << seen[0].text;
  EXPECT_TRUE(exposed() == source);
}

TEST_F(PathTest, OnlyWritesBeyondAMiBAreFetched) {
  start();
  Bytes lent(size_t{2} << 20);
  uint32_t number = 0;
  const auto fetched = [&](size_t bytes) {
    const uint64_t slice = ++number;
    path_->push_write(number, {1, bytes, slice << 32 | 1}, {lent.data(), bytes});
    for (int i = 0; i < 1000; ++i) {
      EXPECT_TRUE(path_->pump().ok());
      while (const auto entry = peer_.take()) {
        if (entry->last == 0) continue;
        EXPECT_EQ(entry->slice, slice);
        return entry->kind == Kind::kPull;
      }
    }
    ADD_FAILURE() << bytes << " bytes did not go out";
    return false;
  };
  constexpr size_t kMiB = size_t{1} << 20;
  EXPECT_FALSE(fetched(1));
  EXPECT_FALSE(fetched(kMiB));
  EXPECT_TRUE(fetched(kMiB + 1));
  EXPECT_TRUE(fetched(2 * kMiB));
}

TEST_F(PathTest, AGenerationThatIsOverHoldsNothingOfThePeer) {
  const Holdings before = Holdings::Now();
  for (int round = 0; round < 100; ++round) {
    start();
    ASSERT_NE(Holdings::Now(), before);
    path_->destroy();
    ASSERT_TRUE(path_->prepare().ok());
    peer_ = PlayedPeer();
    ASSERT_EQ(Holdings::Now(), before) << round << ": " << Holdings::Now().text();
  }
}

TEST_F(PathTest, APeerThatHasTakenWhatWasNeverSentFailsThePath) {
  for (const uint64_t lie : {uint64_t{2}, uint64_t{1} << 40, UINT64_MAX}) {
    path_ = std::unique_ptr<ShmPath>(static_cast<ShmPath*>(device_->make_path().release()));
    ASSERT_TRUE(path_->prepare().ok());
    peer_ = PlayedPeer();
    start();
    Bytes lent(100);
    path_->push_write(1, {1, 100, uint64_t{1} << 32 | 1}, {lent.data(), lent.size()});
    ASSERT_TRUE(path_->pump().ok());
    peer_.own_header().received.store(lie);
    const std::vector<Seen> seen = ring_and_look();
    ASSERT_EQ(seen.size(), 1u) << lie;
    EXPECT_EQ(seen[0].kind, FastEvent::Kind::kFailed);
    EXPECT_TRUE(path_->take_written().empty());
  }
}

// `head` is where a ring's reader says that it is.
TEST_F(PathTest, APeerThatHasFreedWhatWasNeverWrittenFailsThePath) {
  start(/*fetches=*/false);
  peer_.own_header().head.store(uint64_t{1} << 40);
  Bytes lent(kRingBytes);
  path_->push_write(1, {1, lent.size(), uint64_t{1} << 32 | 1}, {lent.data(), lent.size()});
  EXPECT_FALSE(path_->pump().ok());
}

TEST_F(PathTest, APeerThatHasFreedWhatWasNeverWrittenFailsAPathWithFramesAlone) {
  start();
  peer_.own_header().head.store(uint64_t{1} << 40);
  const Bytes frame(ShmOptions::kMaxFrameBytes);
  while (path_->push_frame(frame)) {
  }
  EXPECT_FALSE(path_->pump().ok());
}

}  // namespace
}  // namespace rocecoll
