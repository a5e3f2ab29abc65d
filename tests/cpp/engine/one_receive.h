// SPDX-License-Identifier: Apache-2.0
// A receive of one int32: what stays pending until somebody answers it.
#pragma once

#include <cstdint>

#include "engine/operations/operation.h"

namespace rocecoll {

inline OperationSpec OneReceive(int32_t& into, Rank from) {
  OperationSpec spec;
  spec.collective = Collective::kRecv;
  spec.type = DataType::kInt32;
  spec.root = from;
  spec.output = {&into, Partition::Even(1, 1)};
  return spec;
}

}  // namespace rocecoll
