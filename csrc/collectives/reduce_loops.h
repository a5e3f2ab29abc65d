// SPDX-License-Identifier: Apache-2.0
// The loops behind the kernel tables, written once as plain scalar loops that the compiler turns
// into vectors. One file for each instruction set includes this header after it has chosen the set.
//
// Everything has internal linkage and calls no inline function of the standard library: if a shared
// inline function were compiled for AVX2, the linker might keep that copy for everyone.
//
// Every operation is one correctly rounded IEEE operation on float32 or float64 (no contraction to
// fused multiply-add, see CMakeLists.txt) and every NaN result is the same NaN, so the width of the
// vectors and the order in which a compiler puts the operands of + and * cannot show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "collectives/data_type.h"
#include "collectives/number_formats.h"
#include "collectives/reduce_kernels.h"
#include "collectives/reduce_ops.h"

// The iterations are independent: buffers are either separate or exactly the same.
#if defined(__clang__)
#define ROCECOLL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define ROCECOLL_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace rocecoll {
namespace {

// Buffers need no alignment, not even that of the element.
template <typename T>
T LoadElement(const std::byte* from, size_t index) {
  T value;
  __builtin_memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void StoreElement(std::byte* to, size_t index, T value) {
  __builtin_memcpy(to + index * sizeof(T), &value, sizeof(T));
}

// The element-wise loops of one format. An instruction set may provide its own for float16.
template <typename Format>
struct PlainLoops {
  template <typename Op>
  static void Reduce(const std::byte* left, const std::byte* right, std::byte* out, size_t count) {
    using Storage = typename Format::Storage;
    ROCECOLL_INDEPENDENT
    for (size_t i = 0; i < count; ++i) {
      const auto a = Format::Decode(LoadElement<Storage>(left, i));
      const auto b = Format::Decode(LoadElement<Storage>(right, i));
      StoreElement<Storage>(out, i, Format::Encode(Op::Apply(a, b)));
    }
  }
};

// Loops over `Lanes::kCount` elements at a time, for a conversion that compilers do not vectorize.
// The remaining elements go through the same body, padded, so that every element is computed in the
// same way.
template <typename Lanes>
struct LaneLoops {
  template <typename Op>
  static void Reduce(const std::byte* left, const std::byte* right, std::byte* out, size_t count) {
    constexpr size_t kBytes = Lanes::kCount * Lanes::kElementSize;
    size_t remaining = count * Lanes::kElementSize;
    for (; remaining >= kBytes; remaining -= kBytes) {
      Lanes::Store(out, Op::Apply(Lanes::Load(left), Lanes::Load(right)));
      left += kBytes;
      right += kBytes;
      out += kBytes;
    }
    std::byte a[kBytes] = {};
    std::byte b[kBytes] = {};
    __builtin_memcpy(a, left, remaining);
    __builtin_memcpy(b, right, remaining);
    Lanes::Store(a, Op::Apply(Lanes::Load(a), Lanes::Load(b)));
    __builtin_memcpy(out, a, remaining);
  }
};

// A complex number is handled as a pair for every operation except PRODUCT.
template <typename Loops, typename Op>
void ReducePairs(const std::byte* left, const std::byte* right, std::byte* out, size_t count) {
  Loops::template Reduce<Op>(left, right, out, 2 * count);
}

template <typename Format>
void ComplexProductLoop(const std::byte* left, const std::byte* right, std::byte* out,
                        size_t count) {
  using Storage = typename Format::Storage;
  ROCECOLL_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    const auto a_re = Format::Decode(LoadElement<Storage>(left, 2 * i));
    const auto a_im = Format::Decode(LoadElement<Storage>(left, 2 * i + 1));
    const auto b_re = Format::Decode(LoadElement<Storage>(right, 2 * i));
    const auto b_im = Format::Decode(LoadElement<Storage>(right, 2 * i + 1));
    StoreElement<Storage>(out, 2 * i, Format::Encode(a_re * b_re - a_im * b_im));
    StoreElement<Storage>(out, 2 * i + 1, Format::Encode(a_re * b_im + a_im * b_re));
  }
}

// `kParts` is 2 for complex types.
template <typename Format, size_t kParts>
void ScaleLoop(std::byte* data, double factor, size_t count) {
  using Storage = typename Format::Storage;
  const auto scale = static_cast<typename Format::Value>(factor);
  ROCECOLL_INDEPENDENT
  for (size_t i = 0; i < kParts * count; ++i) {
    const auto value = Format::Decode(LoadElement<Storage>(data, i));
    StoreElement<Storage>(data, i, Format::Encode(value * scale));
  }
}

template <typename Format, size_t kParts>
void DivideLoop(std::byte* data, uint32_t divisor, size_t count) {
  using Storage = typename Format::Storage;
  const auto by = static_cast<typename Format::Value>(divisor);
  ROCECOLL_INDEPENDENT
  for (size_t i = 0; i < kParts * count; ++i) {
    const auto value = Format::Decode(LoadElement<Storage>(data, i));
    StoreElement<Storage>(data, i, Format::Encode(value / by));
  }
}

template <typename T>
void DivideIntegerLoop(std::byte* data, uint32_t divisor, size_t count) {
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  const Wide by = divisor;
  ROCECOLL_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    const Wide value = LoadElement<T>(data, i);
    StoreElement<T>(data, i, static_cast<T>(value / by));
  }
}

constexpr void SetSums(ReduceKernel (&row)[kReduceOps], ReduceKernel sum, bool premultiplied) {
  row[static_cast<int>(ReduceOp::kSum)] = sum;
  row[static_cast<int>(ReduceOp::kAvg)] = sum;
  if (premultiplied) row[static_cast<int>(ReduceOp::kPremulSum)] = sum;
}

// Signed and unsigned integers wrap alike; only MIN, MAX and division differ.
template <typename T>
constexpr void AddInteger(KernelTable& table, DataType type) {
  using Unsigned = PlainLoops<Native<std::make_unsigned_t<T>>>;
  using Ordered = PlainLoops<Native<T>>;
  auto& row = table.reduce[static_cast<int>(type)];
  SetSums(row, Unsigned::template Reduce<SumOp>, false);
  row[static_cast<int>(ReduceOp::kProduct)] = Unsigned::template Reduce<ProductOp>;
  row[static_cast<int>(ReduceOp::kMin)] = Ordered::template Reduce<MinOp>;
  row[static_cast<int>(ReduceOp::kMax)] = Ordered::template Reduce<MaxOp>;
  row[static_cast<int>(ReduceOp::kBand)] = Unsigned::template Reduce<BandOp>;
  row[static_cast<int>(ReduceOp::kBor)] = Unsigned::template Reduce<BorOp>;
  row[static_cast<int>(ReduceOp::kBxor)] = Unsigned::template Reduce<BxorOp>;
  table.divide[static_cast<int>(type)] = DivideIntegerLoop<T>;
}

constexpr void AddBool(KernelTable& table, DataType type) {
  auto& row = table.reduce[static_cast<int>(type)];
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kBor}) {
    row[static_cast<int>(op)] = PlainLoops<Bool>::Reduce<BorOp>;
  }
  for (ReduceOp op : {ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kBand}) {
    row[static_cast<int>(op)] = PlainLoops<Bool>::Reduce<BandOp>;
  }
  row[static_cast<int>(ReduceOp::kBxor)] = PlainLoops<Bool>::Reduce<BxorOp>;
}

template <typename Format, typename Loops>
constexpr void AddFloat(KernelTable& table, DataType type) {
  auto& row = table.reduce[static_cast<int>(type)];
  SetSums(row, Loops::template Reduce<SumOp>, true);
  row[static_cast<int>(ReduceOp::kProduct)] = Loops::template Reduce<ProductOp>;
  row[static_cast<int>(ReduceOp::kMin)] = Loops::template Reduce<MinOp>;
  row[static_cast<int>(ReduceOp::kMax)] = Loops::template Reduce<MaxOp>;
  table.scale[static_cast<int>(type)] = ScaleLoop<Format, 1>;
  table.divide[static_cast<int>(type)] = DivideLoop<Format, 1>;
}

template <typename Format, typename Loops>
constexpr void AddComplex(KernelTable& table, DataType type) {
  auto& row = table.reduce[static_cast<int>(type)];
  SetSums(row, ReducePairs<Loops, SumOp>, true);
  row[static_cast<int>(ReduceOp::kProduct)] = ComplexProductLoop<Format>;
  table.scale[static_cast<int>(type)] = ScaleLoop<Format, 2>;
  table.divide[static_cast<int>(type)] = DivideLoop<Format, 2>;
}

// `Float16Loops` are the instruction set's loops for float16.
template <typename Row, typename Float16Loops>
constexpr void AddType(KernelTable& table) {
  using Format = typename Row::Format;
  constexpr bool kFloat16 = std::is_same_v<Format, Float16>;
  using Loops = std::conditional_t<kFloat16, Float16Loops, PlainLoops<Format>>;
  if constexpr (Row::kKind == NumberKind::kBoolean) {
    AddBool(table, Row::kType);
  } else if constexpr (Row::kKind == NumberKind::kFloat) {
    AddFloat<Format, Loops>(table, Row::kType);
  } else if constexpr (Row::kKind == NumberKind::kComplex) {
    AddComplex<Format, Loops>(table, Row::kType);
  } else {
    AddInteger<typename Format::Value>(table, Row::kType);
  }
}

template <typename Float16Loops, typename... Rows>
constexpr KernelTable MakeKernelTable(std::string_view name, FormatTable<Rows...>) {
  KernelTable table{name, {}, {}, {}};
  (AddType<Rows, Float16Loops>(table), ...);
  return table;
}

}  // namespace
}  // namespace rocecoll
