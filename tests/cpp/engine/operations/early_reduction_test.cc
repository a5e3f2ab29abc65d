// SPDX-License-Identifier: Apache-2.0
// When the sum of a step may change before the step is over.
#include "engine/operations/early_reduction.h"

#include <gtest/gtest.h>

namespace rocecoll {
namespace {

constexpr Blocks Out(uint32_t first, uint32_t count = 1) {
  return Blocks::Run(Buffer::kOutput, first, count);
}
constexpr Blocks In(uint32_t first, uint32_t count = 1) {
  return Blocks::Run(Buffer::kInput, first, count);
}

// As if each buffer were memory of its own.
bool Overlap(const Blocks& a, const Blocks& b) {
  return a.buffer == b.buffer && a.first < b.first + b.count && b.first < a.first + a.count;
}

// Of the step's transfers the one with this number, after a step with these sends.
bool May(const Step& step, uint32_t index = 0, const Step& lingering = {}) {
  return MayReduceEarly(step, index, lingering, Overlap);
}

// One step of a ring: block 3 into the sum of block 2, beside `more`.
template <typename More>
Step With(More&& more) {
  Step step;
  step.recv_reduce(1, Out(2), In(2));
  more(step);
  return step;
}

TEST(EarlyReduction, BesideMessagesOfOtherMemory) {
  EXPECT_TRUE(May(With([](Step&) {})));
  EXPECT_TRUE(May(With([](Step& step) {
    step.copy(Out(2), In(2));  // made before any message is posted
    step.send(2, Out(3));
    step.send(2, In(2));  // the operand is only read
    step.recv(3, Out(1));
    step.recv_reduce(3, Out(4), In(4));
  })));
}

TEST(EarlyReduction, NotWhereTheSumIsSent) {
  EXPECT_FALSE(May(With([](Step& step) { step.send(2, Out(2)); })));
  EXPECT_FALSE(May(With([](Step& step) { step.send(2, Out(0, 8)); })));
}

TEST(EarlyReduction, NotWhereTheStepBeforeMayStillSendTheSum) {
  Step before;
  before.send(1, Out(1, 2));
  EXPECT_FALSE(May(With([](Step&) {}), 0, before));
  Step elsewhere;
  elsewhere.send(1, Out(3));
  elsewhere.recv(1, Out(2));  // which this step waited for
  EXPECT_TRUE(May(With([](Step&) {}), 0, elsewhere));
}

TEST(EarlyReduction, NotWhereSomethingIsReceived) {
  EXPECT_FALSE(May(With([](Step& step) { step.recv(3, Out(2)); })));
  EXPECT_FALSE(May(With([](Step& step) { step.recv(3, In(2)); })));
}

TEST(EarlyReduction, ReductionsOfTheSameMemoryKeepTheirOrder) {
  const Step same = With([](Step& step) { step.recv_reduce(3, Out(2), Out(2)); });
  EXPECT_FALSE(May(same, 0));
  EXPECT_FALSE(May(same, 1));
  const Step reads_sum = With([](Step& step) { step.recv_reduce(3, Out(5), Out(2)); });
  EXPECT_FALSE(May(reads_sum, 0));
  EXPECT_FALSE(May(reads_sum, 1));
}

}  // namespace
}  // namespace rocecoll
