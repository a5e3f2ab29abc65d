// SPDX-License-Identifier: Apache-2.0
// Tags of the messages that calls exchange themselves. Programs have the tags below these.
#pragma once

#include <cstdint>

#include "engine/operations/plan.h"

namespace rocecoll::torch_adapter {

inline constexpr uint32_t kMonitoredBarrierTag = Tag::kLargestUserTag;
inline constexpr uint32_t kSparseReductionTag = Tag::kLargestUserTag - 1;
inline constexpr uint32_t kFirstOwnTag = kSparseReductionTag;

}  // namespace rocecoll::torch_adapter
