// SPDX-License-Identifier: Apache-2.0
// What a connection meets only after hours: counters that never stop rising, one-sided traffic,
// waits.
#include <gtest/gtest.h>

#include <numeric>

#include "reliability/connection_pair.h"
#include "transport/datagram/reliability/regions.h"
#include "transport/datagram/reliability/sent_packets.h"

namespace rocecoll {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

// Options that wait for the peer's opening for as long as a test needs.
ConnectionOptions EverPatient() {
  ConnectionOptions options;
  options.connect_timeout = hours(24 * 365);
  return options;
}

// The receiver of a long write sends only acknowledgements, and nobody acknowledges those.
TEST(LongLife, AReceiverAcknowledgesForAsLongAsDataComes) {
  ConnectionOptions options;
  options.max_datagram_bytes = 512;
  ConnectionPair pair(1, {}, options);
  pair.at(1).set_receive_window(0);  // every packet waits for its acknowledgement
  const uint64_t acknowledgements = 2 * SentPackets::kMaxPackets;
  std::vector<std::byte> source(acknowledgements * 400);
  std::iota(reinterpret_cast<uint8_t*>(source.data()),
            reinterpret_cast<uint8_t*>(source.data() + source.size()), uint8_t{0});
  std::vector<std::byte> target(source.size());
  ASSERT_TRUE(pair.at(0).write(pair.at(1).expose(SliceOf(target), 1), SliceOf(source), 1));
  ASSERT_TRUE(pair.run_until([&] { return pair.end(0).written.size() == 1; }, hours(1)))
      << pair.at(0).status().message();
  EXPECT_GT(pair.end(1).sent, SentPackets::kMaxPackets);
  EXPECT_TRUE(source == target);
}

TEST(LongLife, APeerThatOpensAfterDaysIsGreetedWithinASecond) {
  ConnectionPair pair(2, {}, EverPatient(), false);
  ASSERT_TRUE(pair.at(0).send_frame(TestBytes(1, 1)));
  const Duration waited = hours(24 * 3);
  pair.run_for(waited);
  ASSERT_FALSE(pair.at(0).down());
  // At most one INIT a second is sent after the first minute, and twenty a second before that.
  EXPECT_LE(pair.end(0).sent, static_cast<uint64_t>(waited / seconds(1)) + 20 * 60);
  // The peer opens its end, even if its own first INITs are lost.
  pair.open(1);
  pair.end(1).faults.drop_mask = 0xff;
  ASSERT_TRUE(pair.run_until([&] { return pair.end(1).frames.size() == 1; }, milliseconds(1100)));
}

TEST(LongLife, ALostFirstContactIsRepeatedSoonAfterAShortWait) {
  ConnectionPair pair(3, {}, EverPatient(), false);
  const Instant start = pair.now;
  Instant last = pair.now;
  pair.on_sent = [&](int, std::span<const std::byte>) {
    const Duration pause = pair.now - last;
    EXPECT_LE(pause, std::max<Duration>(milliseconds(50), (pair.now - start) / 8));
    last = pair.now;
  };
  pair.run_for(minutes(5));
}

class Counters : public testing::TestWithParam<int> {};

// All counters of a connection begin a little below the wrap of a counter with this many bits.
TEST_P(Counters, RiseBeyondTheirWraps) {
  constexpr size_t kFrames = 60;
  constexpr uint32_t kWrites = 12;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ConnectionOptions options;
    options.first_number = (uint64_t{1} << GetParam()) - 8;
    ConnectionPair pair(seed, ChannelFaults::Everything(0.2), options);
    ASSERT_TRUE(pair.establish());
    std::vector<std::byte> source = TestBytes(3000, 9);
    std::vector<std::vector<std::byte>> targets(kWrites, std::vector<std::byte>(source.size()));
    for (uint32_t i = 0; i < kWrites; ++i) {
      const RemoteSlice slice = pair.at(1).expose(SliceOf(targets[i]), i);
      ASSERT_TRUE(pair.at(0).write(slice, SliceOf(source), i));
    }
    for (int from : {0, 1}) {
      for (size_t i = 0; i < kFrames; ++i) {
        ASSERT_TRUE(pair.at(from).send_frame(TestBytes(400 + i, i)));
      }
    }
    ASSERT_TRUE(pair.run_until([&] {
      return pair.end(0).written.size() == kWrites && pair.end(0).frames.size() == kFrames &&
             pair.end(1).frames.size() == kFrames;
    }));
    for (int at : {0, 1}) {
      for (size_t i = 0; i < kFrames; ++i) {
        ASSERT_EQ(pair.end(at).frames[i], TestBytes(400 + i, i)) << i;
      }
    }
    for (const auto& target : targets) ASSERT_EQ(target, source);
    // An end that closes also sends the number of its frames.
    ASSERT_TRUE(pair.at(0).send_frame(TestBytes(5, 5)));
    pair.close(0);
    ASSERT_TRUE(pair.run_until([&] { return pair.end(1).downs == 1; }));
    EXPECT_EQ(pair.end(1).frames.size(), kFrames + 1);
    EXPECT_EQ(pair.at(1).status().code(), StatusCode::kPeerLeft);
  }
}

INSTANTIATE_TEST_SUITE_P(Bits, Counters, testing::Values(16, 31, 32, 63));

DataField DataFor(const RemoteSlice& slice, const std::vector<std::byte>& payload) {
  DataField data;
  data.region = slice.base;
  data.key = slice.key;
  data.offset = 0;
  data.payload = payload;
  return data;
}

// At 20,000 a second, 2^32 exposures in one slot take 60 hours.
TEST(LongLife, ARegionIsExposedMoreThanTwoToTheThirtySecondTimes) {
  Regions regions(1, (uint64_t{1} << 32) - 3);
  std::vector<std::byte> into(8);
  const std::vector<std::byte> payload = TestBytes(8, 1);
  std::optional<RemoteSlice> previous;
  for (uint32_t i = 0; i < 6; ++i) {
    const RemoteSlice slice = regions.expose(SliceOf(into), i);
    if (previous) {
      EXPECT_NE(slice.base, previous->base);
      ASSERT_TRUE(regions.is_valid(DataFor(*previous, payload)));
      EXPECT_EQ(regions.write(DataFor(*previous, payload)), std::nullopt);  // late, so ignored
    }
    ASSERT_TRUE(regions.is_valid(DataFor(slice, payload)));
    EXPECT_EQ(regions.write(DataFor(slice, payload)), i);
    previous = slice;
  }
}

}  // namespace
}  // namespace rocecoll
