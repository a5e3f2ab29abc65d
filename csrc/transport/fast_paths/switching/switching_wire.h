// SPDX-License-Identifier: Apache-2.0
// What the two ends of a switching link tell each other over the control path: frames that start
// with a ControlType, little endian; docs/protocol.md has the same in words.
//
//   PIECE, FRAME   a part of the owner's frame that is not, or that is, its last
//   OFFER          1 type, 1 streams (0: control path only), 2 credits, 4 generation, 1 ports, then
//                  for each of 8 streams 8 messages received; for each of the former 1 size and the
//                  address of our end (size 0: none this time); when there are none 1 outlook, and
//                  the rest is the reason
//   READY          1 type, 3 zero, 4 generation: our ends answer yours
//   VERDICT        1 type, 1 proved, 2 zero, 4 generation, then why not
//   EXPOSED        1 type, 3 zero, 4 number of the slice, 36 the slice on the control path
//   GOODBYE        1 type, 7 zero, 8 messages sent on all streams
//   MOVED          1 type, 3 zero, 4 generation: further frames come over the fast path
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "transport/fast_path.h"

namespace rocecoll {

enum class ControlType : uint8_t {
  kPiece = 1,
  kFrame = 2,
  kOffer = 3,
  kReady = 4,
  kVerdict = 5,
  kExposed = 6,
  kGoodbye = 7,
  kMoved = 8,
};

// Longer reasons are cut.
inline constexpr size_t kMaxReasonBytes = 200;

// The reason of an end that is being closed, which its peer need not worry about.
inline constexpr const char* kLeaving = "this rank leaves";

// Of an end that offers nothing.
enum class SwitchingOutlook : uint8_t {
  kFinal = 0,      // it never will
  kAskAgain = 1,   // it may, when it is asked again
  kWillOffer = 2,  // it will tell by an offer of its own: its device is down
};

struct SwitchingOffer {
  uint32_t generation = 0;
  FastPath::Counts received{};
  FastPath::Ends ends;  // none: only the control path, for this reason
  SwitchingOutlook outlook = SwitchingOutlook::kAskAgain;
  std::string reason;
};

struct SwitchingVerdict {
  uint32_t generation = 0;
  bool proved = false;
  std::string reason;
};

struct SwitchingExposed {
  uint32_t number = 0;
  RemoteSlice slice;  // length 0: taken back
};

WireBytes WriteOffer(const SwitchingOffer& offer);
std::optional<SwitchingOffer> ParseOffer(std::span<const std::byte> frame);
WireBytes WriteReady(uint32_t generation);
WireBytes WriteMoved(uint32_t generation);
// Of READY and MOVED.
std::optional<uint32_t> ParseGeneration(std::span<const std::byte> frame);
WireBytes WriteVerdict(const SwitchingVerdict& verdict);
std::optional<SwitchingVerdict> ParseVerdict(std::span<const std::byte> frame);
WireBytes WriteExposed(const SwitchingExposed& exposed);
std::optional<SwitchingExposed> ParseExposed(std::span<const std::byte> frame);
WireBytes WriteGoodbye(uint64_t messages);
std::optional<uint64_t> ParseGoodbye(std::span<const std::byte> frame);

}  // namespace rocecoll
