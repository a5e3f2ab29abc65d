// SPDX-License-Identifier: Apache-2.0
// Compares every type and operation on every instruction set of this machine with plain arithmetic.
#include "collectives/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "collectives/reduce_inputs.h"
#include "collectives/reduce_kernels.h"
#include "collectives/reduce_reference.h"

namespace rocecoll {
namespace {

using reference::MakeOperands;
using Bytes = std::vector<std::byte>;

constexpr size_t kSizes[] = {0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 1000, 4097};
constexpr size_t kLargest = 4097;
constexpr std::byte kGuard{0xa5};

enum class Alias { kApart, kOutIsLeft, kOutIsRight, kAllSame };

// A copy of `bytes` at an address `shift` bytes beyond an aligned one, followed by room and a
// guard.
struct Shifted {
  Shifted(const std::byte* bytes, size_t size, size_t shift)
      : storage(size + shift + 64, kGuard), data(storage.data() + shift) {
    std::copy_n(bytes, size, data);
  }
  Bytes storage;
  std::byte* data;
};

class ReductionCase {
 public:
  ReductionCase(DataType type, ReduceOp op)
      : type_(type),
        op_(op),
        left_(MakeOperands(type, kLargest, 1)),
        right_(MakeOperands(type, kLargest, 2)),
        expected_(Expected(right_)),
        expected_same_(Expected(left_)) {}

  // Whether the first `count` elements hold the result and nothing is written after them.
  testing::AssertionResult Holds(const KernelTable& table, size_t count, size_t shift,
                                 Alias alias) const {
    const size_t size = count * SizeOf(type_);
    Shifted left(left_.data(), size, shift);
    Shifted right(right_.data(), size, shift / 2);
    Shifted apart(right_.data(), size, shift / 3);
    std::byte* const second = alias == Alias::kAllSame ? left.data : right.data;
    std::byte* out = apart.data;
    if (alias == Alias::kOutIsLeft || alias == Alias::kAllSame) out = left.data;
    if (alias == Alias::kOutIsRight) out = right.data;
    table.reduce[static_cast<int>(type_)][static_cast<int>(op_)](left.data, second, out, count);
    const Bytes& expected = alias == Alias::kAllSame ? expected_same_ : expected_;
    const auto differs = std::mismatch(out, out + size, expected.begin());
    if (differs.first != out + size) {
      return testing::AssertionFailure()
             << "differs in element " << (differs.first - out) / SizeOf(type_);
    }
    if (std::count(out + size, out + size + 16, kGuard) != 16) {
      return testing::AssertionFailure() << "wrote behind the end";
    }
    return testing::AssertionSuccess();
  }

 private:
  Bytes Expected(const Bytes& right) const {
    Bytes expected(left_.size());
    for (size_t at = 0; at < left_.size(); at += SizeOf(type_)) {
      reference::Reduce(type_, op_, left_.data() + at, right.data() + at, expected.data() + at);
    }
    return expected;
  }

  DataType type_;
  ReduceOp op_;
  Bytes left_;
  Bytes right_;
  Bytes expected_;
  Bytes expected_same_;
};

class ReduceTest : public testing::TestWithParam<DataType> {};

TEST_P(ReduceTest, AgreesWithPlainArithmetic) {
  const DataType type = GetParam();
  for (ReduceOp op : reference::AllOps()) {
    if (!CheckReduction(type, op).ok()) continue;
    const ReductionCase reduction(type, op);
    for (const KernelTable* table : UsableKernels()) {
      for (size_t count : kSizes) {
        for (size_t shift : {0, 1, 2, 6, 13, 32}) {
          for (Alias alias :
               {Alias::kApart, Alias::kOutIsLeft, Alias::kOutIsRight, Alias::kAllSame}) {
            ASSERT_TRUE(reduction.Holds(*table, count, shift, alias))
                << table->name << " " << ToString(op) << " count " << count << " shift " << shift
                << " alias " << static_cast<int>(alias);
          }
        }
      }
    }
  }
}

TEST_P(ReduceTest, PublicCallUsesTheTables) {
  const DataType type = GetParam();
  const size_t count = 77;
  for (ReduceOp op : reference::AllOps()) {
    if (!CheckReduction(type, op).ok()) continue;
    Bytes left = MakeOperands(type, count, 3);
    const Bytes right = MakeOperands(type, count, 4);
    Bytes expected(left.size());
    for (size_t at = 0; at < left.size(); at += SizeOf(type)) {
      reference::Reduce(type, op, left.data() + at, right.data() + at, expected.data() + at);
    }
    Reduce(type, op, left.data(), right.data(), left.data(), count);
    EXPECT_EQ(left, expected) << ToString(op);
  }
}

TEST_P(ReduceTest, RefusesWhatHasNoMeaning) {
  const DataType type = GetParam();
  for (ReduceOp op : reference::AllOps()) {
    const Status status = CheckReduction(type, op);
    for (const KernelTable* table : UsableKernels()) {
      EXPECT_EQ(table->reduce[static_cast<int>(type)][static_cast<int>(op)] != nullptr, status.ok())
          << table->name << " " << ToString(op);
    }
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_NE(status.message().find(ToString(type)), std::string::npos);
    EXPECT_NE(status.message().find(ToString(op)), std::string::npos);
    EXPECT_THROW(Reduce(type, op, nullptr, nullptr, nullptr, 0), CheckFailure);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ReduceTest, testing::ValuesIn(reference::AllTypes()),
                         [](const auto& info) { return std::string(ToString(info.param)); });

TEST(CheckReductionTest, Table) {
  // Columns: SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM.
  const std::string boolean = "y-yyyyyy-", integer = "yyyyyyyy-", floating = "yyyyy---y",
                    complex = "yyy-----y";
  for (DataType type : reference::AllTypes()) {
    std::string meaning;
    for (ReduceOp op : reference::AllOps()) meaning += CheckReduction(type, op).ok() ? 'y' : '-';
    const std::string& expected = type == DataType::kBool      ? boolean
                                  : type <= DataType::kInt64   ? integer
                                  : reference::IsComplex(type) ? complex
                                                               : floating;
    EXPECT_EQ(meaning, expected) << ToString(type);
  }
}

}  // namespace
}  // namespace rocecoll
