// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "collectives/program.h"

namespace rocecoll {

// Whether step[index], a reduction, may take place while the other messages of its step are under
// way, and not, as programs have it, when all of them are complete. `overlap(a, b)` says whether
// blocks share memory; `lingering` are sends of the step before that may not have been read yet.
template <typename Overlap>
bool MayReduceEarly(const Step& step, uint32_t index, const Step& lingering, Overlap&& overlap) {
  using Kind = Transfer::Kind;
  const Transfer& early = step[index];
  const auto reads_sum = [&](const Transfer& send) {
    return send.kind == Kind::kSend && overlap(early.blocks, send.blocks);
  };
  // Another receive that writes the sum or the operand of this one, or reads its sum: these go in
  // the order of the step.
  const auto minds = [&](const Transfer& other) {
    if (&other == &early || (other.kind != Kind::kRecv && other.kind != Kind::kRecvReduce)) {
      return false;
    }
    return overlap(early.blocks, other.blocks) || overlap(early.source, other.blocks) ||
           (other.kind == Kind::kRecvReduce && overlap(early.blocks, other.source));
  };
  return std::ranges::none_of(step, reads_sum) && std::ranges::none_of(lingering, reads_sum) &&
         std::ranges::none_of(step, minds);
}

}  // namespace rocecoll
