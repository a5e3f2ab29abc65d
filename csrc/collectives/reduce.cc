// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce.h"

#include <string>

#include "base/check.h"
#include "collectives/float_mode.h"
#include "collectives/reduce_kernels.h"

namespace rocecoll {
namespace {

bool IsComplex(DataType type) {
  return type == DataType::kComplex32 || type == DataType::kComplex64 ||
         type == DataType::kComplex128;
}

bool IsInteger(DataType type) { return type >= DataType::kUint8 && type <= DataType::kInt64; }

bool HasMeaning(DataType type, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kProduct:
      return true;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return !IsComplex(type);
    case ReduceOp::kAvg:
      return type != DataType::kBool;
    case ReduceOp::kPremulSum:
      return type != DataType::kBool && !IsInteger(type);
    case ReduceOp::kBand:
    case ReduceOp::kBor:
    case ReduceOp::kBxor:
      return type == DataType::kBool || IsInteger(type);
  }
  return false;
}

const KernelTable& Kernels() {
  static const KernelTable& fastest = *UsableKernels().front();
  return fastest;
}

}  // namespace

Status CheckReduction(DataType type, ReduceOp op) {
  if (HasMeaning(type, op)) return Status();
  return Status(StatusCode::kUnsupported,
                std::string(ToString(op)) + " is not defined for " + std::string(ToString(type)));
}

bool DividesFirst(DataType type) { return !IsInteger(type); }

void Reduce(DataType type, ReduceOp op, const void* left, const void* right, void* out,
            size_t count) {
  ROCECOLL_CHECK(static_cast<int>(type) < kDataTypes && static_cast<int>(op) < kReduceOps);
  const ReduceKernel kernel = Kernels().reduce[static_cast<int>(type)][static_cast<int>(op)];
  ROCECOLL_CHECK(kernel != nullptr);
  if (count == 0) return;
  const FloatMode mode;
  kernel(static_cast<const std::byte*>(left), static_cast<const std::byte*>(right),
         static_cast<std::byte*>(out), count);
}

void Scale(DataType type, void* data, double factor, size_t count) {
  ROCECOLL_CHECK(static_cast<int>(type) < kDataTypes);
  const ScaleKernel kernel = Kernels().scale[static_cast<int>(type)];
  ROCECOLL_CHECK(kernel != nullptr);
  const FloatMode mode;
  kernel(static_cast<std::byte*>(data), factor, count);
}

void Divide(DataType type, void* data, uint32_t divisor, size_t count) {
  ROCECOLL_CHECK(static_cast<int>(type) < kDataTypes && divisor != 0);
  const DivideKernel kernel = Kernels().divide[static_cast<int>(type)];
  ROCECOLL_CHECK(kernel != nullptr);
  const FloatMode mode;
  kernel(static_cast<std::byte*>(data), divisor, count);
}

}  // namespace rocecoll
