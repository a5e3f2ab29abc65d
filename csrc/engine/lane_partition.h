// SPDX-License-Identifier: Apache-2.0
// Which part of a buffer a lane of an operation works on.
#pragma once

#include <cstdint>

#include "collectives/partition.h"
#include "engine/operation.h"

namespace rocecoll {

// The lane's part of a buffer of `spec`; a buffer that this rank does not have has no blocks.
Partition LanePartition(const OperationSpec& spec, const Partition& partition, uint32_t index,
                        uint32_t lanes);

}  // namespace rocecoll
