// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/switching/kept_messages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace rocecoll {
namespace {

using Kept = KeptMessages<std::string>;

Kept KeptOf(uint64_t first_number, std::vector<std::string> messages) {
  Kept log(first_number);
  for (std::string& message : messages) log.push(std::move(message));
  return log;
}

std::vector<std::string> Send(Kept& log, size_t most = SIZE_MAX) {
  std::vector<std::string> sent;
  for (; !log.all_sent() && sent.size() < most; log.on_sent()) sent.push_back(log.to_send());
  return sent;
}

bool Acknowledge(Kept& log, uint64_t received, std::vector<std::string>& settled) {
  return log.acknowledge(received, [&](std::string& message) { settled.push_back(message); });
}

using Messages = std::vector<std::string>;

TEST(KeptMessages, AreNumberedFromTheFirstNumberOn) {
  Kept log(41);
  EXPECT_TRUE(log.empty() && log.all_sent());
  EXPECT_EQ(log.pushed(), 41u);
  log.push("a");
  log.push("b");
  EXPECT_EQ(log.first(), 41u);
  EXPECT_EQ(log.next(), 41u);
  EXPECT_EQ(log.pushed(), 43u);
}

TEST(KeptMessages, AreSentOnceInAGenerationAndKept) {
  Kept log = KeptOf(0, {"a", "b", "c"});
  EXPECT_EQ(Send(log, 2), (Messages{"a", "b"}));
  EXPECT_EQ(log.next(), 2u);
  EXPECT_EQ(log.unsent().size(), 1u);
  EXPECT_EQ(Send(log), Messages{"c"});
  EXPECT_TRUE(log.all_sent());
  EXPECT_EQ(log.size(), 3u);
}

TEST(KeptMessages, ThoseThatThePeerLacksAreSentAgain) {
  Kept log = KeptOf(7, {"a", "b", "c"});
  Send(log, 2);
  log.rewind();
  Messages settled;
  EXPECT_TRUE(Acknowledge(log, 8, settled));
  EXPECT_EQ(settled, Messages{"a"});
  EXPECT_EQ(Send(log), (Messages{"b", "c"}));
}

TEST(KeptMessages, AnAcknowledgementLeavesTheNextToBeSentWhereItIs) {
  Kept log = KeptOf(0, {"a", "b", "c"});
  Send(log, 2);
  Messages settled;
  EXPECT_TRUE(Acknowledge(log, 1, settled));
  EXPECT_TRUE(log.any_sent());
  EXPECT_EQ(log.next(), 2u);
  EXPECT_EQ(Send(log), Messages{"c"});
}

TEST(KeptMessages, APeerCannotHaveWhatItHadBeforeOrWhatWasNotPushed) {
  Kept log = KeptOf(5, {"a", "b"});
  Messages settled;
  for (const uint64_t lie : {uint64_t{0}, uint64_t{4}, uint64_t{8}, UINT64_MAX}) {
    EXPECT_FALSE(Acknowledge(log, lie, settled)) << lie;
  }
  EXPECT_TRUE(settled.empty());
  EXPECT_TRUE(Acknowledge(log, 5, settled));
  EXPECT_TRUE(Acknowledge(log, 7, settled));
  EXPECT_EQ(settled, (Messages{"a", "b"}));
  EXPECT_FALSE(Acknowledge(log, 6, settled));
}

TEST(KeptMessages, ARestGoesOutRightAfterItsBeginning) {
  Kept log = KeptOf(0, {"a", "bc", "d"});
  Send(log, 1);
  log.to_send() = "b";
  log.insert_rest("c");
  EXPECT_EQ(Send(log), (Messages{"b", "c", "d"}));
  EXPECT_EQ(log.pushed(), 4u);
}

TEST(KeptMessages, TakenOnesAreNoLongerCounted) {
  Kept log = KeptOf(3, {"a", "b"});
  Send(log, 1);
  const std::deque<std::string> taken = log.take();
  EXPECT_EQ(Messages(taken.begin(), taken.end()), (Messages{"a", "b"}));
  EXPECT_TRUE(log.empty() && log.all_sent());
  EXPECT_EQ(log.pushed(), 3u);
}

}  // namespace
}  // namespace rocecoll
