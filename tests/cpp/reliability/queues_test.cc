// SPDX-License-Identifier: Apache-2.0
// The send queue and the reassembly of frames, pending writes and regions, each tested separately.
#include <gtest/gtest.h>

#include <deque>

#include "reliability/connection_pair.h"
#include "transport/datagram/reliability/pending_writes.h"
#include "transport/datagram/reliability/reassembly.h"
#include "transport/datagram/reliability/regions.h"
#include "transport/datagram/reliability/send_queue.h"

namespace rocecoll {
namespace {

std::vector<std::byte> Copy(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

// Longer than any frame of these tests.
constexpr size_t kWhole = 1 << 16;

TEST(SendQueue, KeepsContentThroughWrappingGrowthAndLoss) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    SendQueue queue(16 * 1024);
    std::deque<std::pair<uint64_t, std::vector<std::byte>>> model;  // unacknowledged
    std::vector<uint64_t> in_flight;
    uint64_t pushed = 0;
    for (int step = 0; step < 3000; ++step) {
      const uint64_t what = random.below(4);
      if (what == 0) {
        auto frame = TestBytes(1 + random.below(900), random.next());
        const size_t piece_bytes = random.chance(0.5) ? kWhole : 1 + random.below(300);
        if (queue.push(frame, piece_bytes)) {
          for (size_t begin = 0; begin < frame.size(); begin += piece_bytes) {
            const size_t size = std::min(piece_bytes, frame.size() - begin);
            EXPECT_EQ(queue.ends_frame(pushed), begin + size == frame.size());
            model.emplace_back(pushed++, Copy(std::span(frame).subspan(begin, size)));
          }
        }
      } else if (what == 1 && queue.has_pending()) {
        const uint64_t sequence = queue.next_pending();
        queue.mark_sent(sequence);
        in_flight.push_back(sequence);
      } else if (!in_flight.empty()) {
        const size_t at = random.below(in_flight.size());
        const uint64_t sequence = in_flight[at];
        in_flight.erase(in_flight.begin() + static_cast<ptrdiff_t>(at));
        if (what == 2) {
          queue.on_lost(sequence, 1);
        } else {
          queue.on_acknowledged(sequence, 1);
          std::erase_if(model, [&](const auto& entry) { return entry.first == sequence; });
        }
      }
      for (const auto& [sequence, frame] : model) ASSERT_EQ(Copy(queue.bytes(sequence)), frame);
      ASSERT_EQ(queue.empty(), model.empty());
    }
    EXPECT_GT(pushed, 300u);
  }
}

TEST(SendQueue, IsBoundedInBytesAndInFrames) {
  SendQueue queue(64 * 1024);
  size_t bytes = 0;
  while (queue.push(TestBytes(1000, 1), 300)) bytes += 1000;
  EXPECT_LE(bytes, 64u * 1024);
  EXPECT_GE(bytes, 62u * 1000);
  SendQueue tiny(64 * 1024);
  size_t frames = 0;
  while (tiny.push(TestBytes(1, 1), kWhole)) ++frames;
  EXPECT_EQ(frames, 64u * 1024 / 16);
  EXPECT_FALSE(SendQueue(1024).push(TestBytes(2000, 1), kWhole));
  SendQueue pieces(2048);
  EXPECT_FALSE(pieces.push(TestBytes(129, 1), 1)) << "all of a frame or nothing";
  EXPECT_TRUE(pieces.empty());
  EXPECT_TRUE(pieces.push(TestBytes(128, 1), 1));
}

TEST(SendQueue, OffersLostFramesFirstAndForgetsOnClear) {
  SendQueue queue(4096);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(queue.push(TestBytes(10, 1), kWhole));
  for (uint64_t i = 0; i < 3; ++i) queue.mark_sent(i);
  queue.on_lost(1, 2);
  EXPECT_EQ(queue.next_pending(), 1u);
  queue.on_acknowledged(1, 1);  // late: it needs no second sending
  EXPECT_EQ(queue.next_pending(), 2u);
  queue.mark_sent(2);
  EXPECT_EQ(queue.next_pending(), 3u);
  queue.clear();
  queue.on_acknowledged(0, 3);
  queue.on_lost(0, 3);
  EXPECT_FALSE(queue.has_pending());
  EXPECT_EQ(queue.end_sequence(), 4u);
}

TEST(Reassembly, PassesFramesOnInOrderOnceWhateverTheirArrival) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    std::vector<std::vector<std::byte>> pieces;
    std::vector<std::vector<std::byte>> frames(1);
    std::vector<bool> ends;
    for (uint64_t i = 0; i < 50; ++i) {
      pieces.push_back(TestBytes(1 + random.below(50), i));
      frames.back().insert(frames.back().end(), pieces[i].begin(), pieces[i].end());
      ends.push_back(i == 49 || random.chance(0.5));
      if (ends.back() && i < 49) frames.emplace_back();
    }
    Reassembly reassembly;
    ConnectionEvents events;
    while (reassembly.next_sequence() < 50) {
      const uint64_t i = random.below(50);
      ASSERT_TRUE(reassembly.accept({i, pieces[i], ends[i]}, events));
    }
    for (const auto& frame : frames) {
      ASSERT_FALSE(events.empty());
      ASSERT_EQ(Copy(events.front().frame), frame);
      events.pop_front();
    }
    EXPECT_TRUE(events.empty());
    EXPECT_EQ(reassembly.stored_bytes(), 0u);
  }
}

TEST(Reassembly, AFrameInOrderIsNotCopied) {
  Reassembly reassembly;
  ConnectionEvents events;
  const auto frame = TestBytes(10, 1);
  ASSERT_TRUE(reassembly.accept({0, frame}, events));
  EXPECT_EQ(events.front().frame.data(), frame.data());
}

TEST(Reassembly, RefusesAFrameWithoutEnd) {
  const auto most = TestBytes(Connection::kMaxFrameBytes - 1, 1);
  const auto one = TestBytes(1, 1);
  for (const bool early : {false, true}) {
    Reassembly reassembly;
    ConnectionEvents events;
    const auto accept = [&](uint64_t sequence, const std::vector<std::byte>& piece, bool ends) {
      return reassembly.accept({sequence, piece, ends}, events);
    };
    if (early) {
      ASSERT_TRUE(accept(4, one, false));
    }
    ASSERT_TRUE(accept(0, most, false));
    ASSERT_TRUE(accept(1, one, true)) << "as long as one may be";
    ASSERT_EQ(events.size(), 1u);
    ASSERT_TRUE(accept(2, most, false));
    if (!early) {
      ASSERT_TRUE(accept(3, one, false));
    }
    EXPECT_FALSE(early ? accept(3, one, false) : accept(4, one, true));
    EXPECT_EQ(events.size(), 1u);
  }
}

TEST(Reassembly, HasRoomForWhatIsInOrderWhateverItHolds) {
  Reassembly reassembly;
  ConnectionEvents events;
  const auto large = TestBytes(60000, 1);
  uint64_t sequence = 1;
  for (;; ++sequence) {
    const FrameField frame{sequence, large};
    if (!reassembly.has_room({&frame, 1})) break;
    ASSERT_TRUE(reassembly.accept(frame, events));
  }
  EXPECT_LE(reassembly.stored_bytes(), Reassembly::kMaxStoredBytes);
  const FrameField in_order{0, large};
  EXPECT_TRUE(reassembly.has_room({&in_order, 1}));
  const FrameField far{Reassembly::kMaxAhead + 1, std::span(large).first(1)};
  EXPECT_FALSE(Reassembly().has_room({&far, 1}));
}

TEST(PendingWrites, EveryByteIsTakenUntilAcknowledged) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Random random(seed);
    PendingWrites writes(8);
    std::vector<std::vector<std::byte>> sources;
    for (uint32_t i = 0; i < 5; ++i) {
      sources.push_back(TestBytes(i == 0 ? 1 : 1 + random.below(5000), i));
      ASSERT_TRUE(writes.push({i, sources[i].size(), 77}, SliceOf(sources[i]), 100 + i));
    }
    std::vector<uint32_t> done;
    std::vector<PendingWrites::Chunk> in_flight;
    while (!writes.empty()) {
      if (writes.has_pending() && random.chance(0.6)) {
        in_flight.push_back(writes.take(1 + random.below(700)));
        const auto& chunk = in_flight.back();
        ASSERT_EQ(chunk.payload.data(), sources[chunk.region].data() + chunk.offset);
        ASSERT_EQ(chunk.key, 77u);
        continue;
      }
      if (in_flight.empty()) continue;
      const size_t at = random.below(in_flight.size());
      const auto chunk = in_flight[at];
      if (random.chance(0.3)) {
        writes.on_lost(chunk.write, chunk.offset, chunk.payload.size());
        if (random.chance(0.5)) continue;  // declared lost, but acknowledged later
      } else if (const auto token =
                     writes.on_acknowledged(chunk.write, chunk.offset, chunk.payload.size())) {
        done.push_back(*token);
      }
      in_flight.erase(in_flight.begin() + static_cast<ptrdiff_t>(at));
    }
    std::sort(done.begin(), done.end());
    EXPECT_EQ(done, (std::vector<uint32_t>{100, 101, 102, 103, 104}));
    EXPECT_FALSE(writes.has_pending());
  }
}

TEST(PendingWrites, TellsTheLastPartAndResendsLostPartsFirst) {
  PendingWrites writes(8);
  auto source = TestBytes(300, 1);
  ASSERT_TRUE(writes.push({1, 300, 2}, SliceOf(source), 3));
  EXPECT_FALSE(writes.take(100).last);
  EXPECT_FALSE(writes.take(100).last);
  writes.on_lost(0, 0, 100);
  const auto again = writes.take(1000);
  EXPECT_EQ(again.offset, 0u);
  EXPECT_EQ(again.payload.size(), 100u);
  EXPECT_FALSE(again.last);
  EXPECT_TRUE(writes.take(1000).last);
}

TEST(Regions, LandWhenEveryByteCameOnceInAnyOrder) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    Regions regions(seed);
    const auto source = TestBytes(3000, 1);
    std::vector<std::byte> target(3000);
    const auto remote = regions.expose(SliceOf(target), 9);
    std::optional<uint32_t> token;
    DataField last;
    while (!token) {
      const uint64_t offset = random.below(3000);
      const uint64_t length = 1 + random.below(std::min<uint64_t>(500, 3000 - offset));
      last = {remote.base, remote.key, offset, std::span(source).subspan(offset, length)};
      ASSERT_TRUE(regions.is_valid(last));
      token = regions.write(last);
    }
    EXPECT_EQ(*token, 9u);
    EXPECT_EQ(source, target);
    // The write has landed, so the memory belongs to its owner again.
    target.assign(3000, std::byte{0});
    EXPECT_TRUE(regions.is_valid(last));
    EXPECT_FALSE(regions.write(last));
    EXPECT_EQ(target, std::vector<std::byte>(3000));
  }
}

TEST(Regions, BytesThatLandedAreNotWrittenAgain) {
  Regions regions(1);
  std::vector<std::byte> target(100);
  const auto remote = regions.expose(SliceOf(target), 9);
  const auto first = TestBytes(50, 1);
  const auto second = TestBytes(60, 2);
  EXPECT_FALSE(regions.write({remote.base, remote.key, 0, first}));
  EXPECT_FALSE(regions.write({remote.base, remote.key, 20, second}));
  EXPECT_EQ(Copy(std::span(target).first(50)), first);
  EXPECT_EQ(Copy(std::span(target).subspan(50, 30)), Copy(std::span(second).subspan(30)));
}

TEST(Regions, IdsAndKeysAreNotUsedAgain) {
  Regions regions(1);
  std::vector<std::byte> target(10);
  const auto first = regions.expose(SliceOf(target), 1);
  regions.unexpose(first);
  const auto second = regions.expose(SliceOf(target), 2);
  EXPECT_NE(first.base, second.base);
  EXPECT_NE(first.key, second.key);
  const auto payload = TestBytes(10, 1);
  EXPECT_FALSE(regions.write({first.base, first.key, 0, payload}));
  EXPECT_EQ(target, std::vector<std::byte>(10));
  EXPECT_FALSE(regions.is_valid({second.base, first.key, 0, payload}));
  EXPECT_EQ(regions.write({second.base, second.key, 0, payload}), 2u);
  const auto third = regions.expose(SliceOf(target), 3);
  EXPECT_FALSE(regions.write({third.base, third.key, 0, std::span(payload).first(1)}));
  EXPECT_THROW(regions.unexpose(third), CheckFailure);
}

}  // namespace
}  // namespace rocecoll
