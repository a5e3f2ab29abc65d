// SPDX-License-Identifier: Apache-2.0
// Element-wise arithmetic of the collectives.
//
// Bits: a result depends on the operands and their order alone, never on alignment, size, vector
// width or thread. The engine always passes the lower rank's value as the left operand, so that
// ranks which compute the same sum get the same bits, signed zeros included. A NaN result is always
// the type's one quiet NaN without sign or payload, since processors differ in which they pass on.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "collectives/data_type.h"

namespace rocecoll {

// kUnsupported, naming both, where the op has no meaning for the type: bit ops on floating and
// complex types, MIN and MAX on complex types, AVG and PREMUL_SUM on bool, PREMUL_SUM on integers.
Status CheckReduction(DataType type, ReduceOp op);

// out[i] = left[i] op right[i] for i < count. `out` may be `left` or `right` or apart; partial
// overlap is not allowed. AVG and PREMUL_SUM add. bool: SUM, MAX and BOR are or; PRODUCT, MIN and
// BAND are and; BXOR is xor. 16- and 8-bit floats compute in float32 and round to nearest even each
// time, as torch converts them. MIN and MAX propagate NaN and order -0 before +0. Integers wrap
// around.
void Reduce(DataType type, ReduceOp op, const void* left, const void* right, void* out,
            size_t count);

// data[i] *= factor (PREMUL_SUM's first step; floating and complex types).
void Scale(DataType type, void* data, double factor, size_t count);

// Whether AVG divides what each rank has before it is added, as NCCL does, and not the sum: so for
// floating and complex types, whose sum may overflow where the average does not. The quotient is
// rounded once; for a power of two nothing is lost but below the smallest normal number.
bool DividesFirst(DataType type);

// data[i] /= divisor (AVG's first or last step). Integers truncate toward zero.
void Divide(DataType type, void* data, uint32_t divisor, size_t count);

}  // namespace rocecoll
