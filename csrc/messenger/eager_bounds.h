// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "messenger/message_wire.h"
#include "messenger/messenger.h"
#include "transport/transport.h"

namespace rocecoll {

// The longest message that goes without asking, and how many of these a link may bring before their
// receives are posted. All ranks of a group derive the same bounds without talking, as their limits
// are those of its worst pair.
struct EagerBounds {
  // What all peers of a rank together may make one of its groups buffer. To keep to it, each pair
  // has fewer credits in groups of more than 128 ranks, and in those of more than 2048 also a lower
  // limit.
  static constexpr uint64_t kUnexpectedBytes = uint64_t{256} << 20;
  // With fewer, each message would wait for its credit.
  static constexpr uint32_t kLeastCredits = 4;

  size_t bytes = 0;
  uint32_t credits = 1;

  static EagerBounds Of(const TransportLimits& limits, const MessengerOptions& options,
                        size_t ranks) {
    ROCECOLL_CHECK(limits.max_frame_bytes >= MessageFrame::kMaxControlBytes && ranks > 0 &&
                   options.eager_credits > 0);
    const uint64_t affordable = kUnexpectedBytes / kLeastCredits / ranks;
    EagerBounds bounds;
    bounds.bytes = options.eager_bytes != 0
                       ? options.eager_bytes
                       : std::min<uint64_t>(limits.preferred_eager_bytes, affordable);
    bounds.bytes = std::min(bounds.bytes, limits.max_frame_bytes - MessageFrame::kHeaderBytes);
    const uint64_t credits = kUnexpectedBytes / ranks / std::max<uint64_t>(bounds.bytes, 1);
    bounds.credits = static_cast<uint32_t>(
        std::min<uint64_t>(options.eager_credits, std::max<uint64_t>(credits, kLeastCredits)));
    return bounds;
  }
};

}  // namespace rocecoll
