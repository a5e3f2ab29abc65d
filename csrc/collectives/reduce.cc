// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce.h"

#include <string>

#include "base/check.h"
#include "collectives/float_mode.h"
#include "collectives/reduce_kernels.h"

namespace rocecoll {
namespace {

const KernelTable& Kernels() {
  static const KernelTable& fastest = *UsableKernels().front();
  return fastest;
}

// Null if the operation has no meaning for the type.
ReduceKernel KernelOf(DataType type, ReduceOp op) {
  ROCECOLL_CHECK(static_cast<int>(type) < kDataTypes && static_cast<int>(op) < kReduceOps);
  return Kernels().reduce[static_cast<int>(type)][static_cast<int>(op)];
}

}  // namespace

Status CheckReduction(DataType type, ReduceOp op) {
  if (KernelOf(type, op) != nullptr) return Status();
  return Status(StatusCode::kUnsupported,
                std::string(ToString(op)) + " is not defined for " + std::string(ToString(type)));
}

bool DividesFirst(DataType type) {
  return KindOf(type) == NumberKind::kFloat || KindOf(type) == NumberKind::kComplex;
}

void Reduce(DataType type, ReduceOp op, const void* left, const void* right, void* out,
            size_t count) {
  const ReduceKernel kernel = KernelOf(type, op);
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
