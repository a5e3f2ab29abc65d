// SPDX-License-Identifier: Apache-2.0
// The element-wise arithmetic of the collectives.
//
// Bits: a result depends only on the operands and their order, never on alignment, size, vector
// width or thread. The engine always passes the lower rank's value as the left operand, so that
// ranks which compute the same sum get the same bits, signed zeros included. A NaN result is always
// the one quiet NaN of the type, without sign or payload, because processors differ in which NaN
// they pass on.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "collectives/data_type.h"

namespace rocecoll {

// Returns kUnsupported, naming both, if the operation has no meaning for the type: bit ops on
// floating and complex types, MIN and MAX on complex types, AVG and PREMUL_SUM on bool, PREMUL_SUM
// on integers.
Status CheckReduction(DataType type, ReduceOp op);

// out[i] = left[i] op right[i] for i < count. `out` may be `left` or `right` or separate memory;
// partial overlap is not allowed. AVG and PREMUL_SUM add. For bool, SUM, MAX and BOR are or;
// PRODUCT, MIN and BAND are and; BXOR is xor. 16- and 8-bit floats compute in float32 and round to
// nearest even each time, as torch converts them. MIN and MAX propagate NaN and order -0 before +0.
// Integers wrap around.
void Reduce(DataType type, ReduceOp op, const void* left, const void* right, void* out,
            size_t count);

// data[i] *= factor (the first step of PREMUL_SUM, for floating and complex types).
void Scale(DataType type, void* data, double factor, size_t count);

// Whether AVG divides the value of each rank before it is added, as NCCL does, instead of dividing
// the sum. This is so for floating and complex types, whose sum may overflow where the average does
// not. The quotient is rounded once; dividing by a power of two loses nothing except below the
// smallest normal number.
bool DividesFirst(DataType type);

// data[i] /= divisor (the first or last step of AVG). Integers truncate toward zero.
void Divide(DataType type, void* data, uint32_t divisor, size_t count);

}  // namespace rocecoll
