// SPDX-License-Identifier: Apache-2.0
// What an operation is, in the 24 bytes that travel with its messages (messenger/messenger.h).
// Ranks whose fingerprints differ have called different things.
//
//   offset  size  field
//        0     8  elements in one rank's whole vector, 0 where ranks need not agree
//        8     4  sequence number of the collective, low bits
//       12     4  hash of what decides the messages besides: lanes, program, block sizes
//       16     4  root (group rank)
//       20     1  collective; send and recv are both kSend
//       21     1  reduce op
//       22     1  data type
//       23     1  flags: bit 0, blocks may differ in size between ranks
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/rank.h"
#include "engine/operations/operation.h"
#include "engine/operations/plan.h"
#include "messenger/messenger.h"

namespace rocecoll {

Fingerprint MakeFingerprint(const OperationSpec& spec, const Plan& plan, uint64_t sequence);

// "all_reduce".
std::string DescribeName(const Fingerprint& fingerprint);
// "SUM, float32, 1024 elements"; empty for a barrier. `global_ranks` translates the root.
std::string DescribeArguments(const Fingerprint& fingerprint,
                              std::span<const Rank> global_ranks = {});
// "all_reduce(SUM, float32, 1024 elements)".
std::string DescribeFingerprint(const Fingerprint& fingerprint,
                                std::span<const Rank> global_ranks = {});

}  // namespace rocecoll
