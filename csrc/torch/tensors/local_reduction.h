// SPDX-License-Identifier: Apache-2.0
// What one rank reduces by itself: the tensors of a list, before the ranks reduce what they have.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "collectives/data_type.h"

namespace rocecoll::torch_adapter {

// One tensor of all: the first itself if there are no others. They are alike, dense or, for SUM,
// sparse, and `op` has a meaning for their type; a factor or AVG's division is up to the caller.
at::Tensor ReduceLocally(ReduceOp op, const std::vector<at::Tensor>& tensors);

}  // namespace rocecoll::torch_adapter
