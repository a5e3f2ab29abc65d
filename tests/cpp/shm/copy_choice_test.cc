// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/shm/copy_choice.h"

#include <gtest/gtest.h>

#include <chrono>

namespace rocecoll {
namespace {

using Copy = CopyChoice::Copy;
using std::chrono::microseconds;

constexpr size_t kBytes = size_t{1} << 20;

// What a MiB takes on some pair of processors.
struct Machine {
  microseconds into_ring;
  microseconds out_of_ring;
  microseconds fetch;
};
constexpr Machine kNear{microseconds(60), microseconds(50), microseconds(250)};
constexpr Machine kFar{microseconds(250), microseconds(250), microseconds(280)};

struct CopyingPair {
  CopyChoice writer;
  CopyChoice reader;
};

// So many writes one way; how many were fetched.
int Write(CopyingPair& pair, const Machine& machine, int writes) {
  int fetched = 0;
  for (int i = 0; i < writes; ++i) {
    if (pair.writer.next_is_fetched(pair.reader.fetch_costs_more())) {
      ++fetched;
      pair.reader.on_copied(Copy::kFetch, kBytes, machine.fetch);
    } else {
      pair.writer.on_copied(Copy::kIntoRing, kBytes, machine.into_ring);
      pair.reader.on_copied(Copy::kOutOfRing, kBytes, machine.out_of_ring);
    }
  }
  return fetched;
}

TEST(CopyChoice, FetchesUntilItKnowsBetter) {
  CopyingPair pair;
  EXPECT_EQ(Write(pair, kNear, 3), 3);
  EXPECT_LE(Write(pair, kNear, 640), 10) << "now and then, to see";
}

TEST(CopyChoice, StaysWithWhatTakesLessAndTriesTheOtherNowAndThen) {
  CopyingPair pair;
  Write(pair, kFar, 64);
  EXPECT_EQ(Write(pair, kFar, 6400), 6300) << "one of 64 goes through the ring";
}

TEST(CopyChoice, FollowsProcessesThatMove) {
  CopyingPair pair;
  Write(pair, kFar, 200);
  Write(pair, kNear, 1500);
  EXPECT_LE(Write(pair, kNear, 640), 12);
  Write(pair, kFar, 1500);
  EXPECT_GE(Write(pair, kFar, 640), 628);
}

TEST(CopyChoice, OneLongSampleTurnsNothing) {
  CopyingPair pair;
  Write(pair, kNear, 200);
  pair.writer.on_copied(Copy::kIntoRing, kBytes, std::chrono::seconds(1));
  EXPECT_LE(Write(pair, kNear, 64), 2);
}

// The first one is all that is known of a way until the next.
TEST(CopyChoice, OneLongFirstSampleIsForgotten) {
  CopyingPair pair;
  pair.writer.on_copied(Copy::kIntoRing, kBytes, std::chrono::seconds(1));
  Write(pair, kNear, 500);
  EXPECT_LE(Write(pair, kNear, 640), 12);
}

// Before the reader has done both, it has nothing to say. A fetch that costs less than the copy out
// of the ring alone is always the better one.
TEST(CopyChoice, SaysWhatAFetchCostsMore) {
  CopyChoice reader;
  EXPECT_EQ(reader.fetch_costs_more(), 0U);
  reader.on_copied(Copy::kFetch, 1000, microseconds(2));
  EXPECT_EQ(reader.fetch_costs_more(), 0U);
  reader.on_copied(Copy::kOutOfRing, 1000, microseconds(1));
  EXPECT_EQ(reader.fetch_costs_more(), 1000U) << "picoseconds a byte";
  CopyChoice other;
  other.on_copied(Copy::kFetch, 1000, microseconds(1));
  other.on_copied(Copy::kOutOfRing, 1000, microseconds(2));
  EXPECT_EQ(other.fetch_costs_more(), 1U);
}

// Whatever a peer that is not ours says.
TEST(CopyChoice, AnyWordOfThePeerIsTaken) {
  CopyChoice writer;
  writer.on_copied(Copy::kIntoRing, 1000, microseconds(1));
  EXPECT_TRUE(writer.next_is_fetched(1));
  EXPECT_FALSE(writer.next_is_fetched(UINT32_MAX));
}

}  // namespace
}  // namespace rocecoll
