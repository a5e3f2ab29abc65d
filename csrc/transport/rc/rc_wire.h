// SPDX-License-Identifier: Apache-2.0
// What the two ends of an RC link tell each other, little endian; docs/protocol.md has the same in
// words. Over the control path: frames that start with a ControlType. Over queue pairs: SENDs that
// start with a stream header, and the 32-bit immediate of a write's last request, which is the
// number of the exposed slice.
//
//   PIECE, FRAME   a part of the owner's frame that is not, or that is, its last
//   OFFER          1 type, 1 queue pairs (0: control path only), 2 credits, 4 generation, then for
//                  each of the link's streams 8 messages received; for each queue pair 1 size and
//                  the address; the rest is the reason when there are none
//   READY          1 type, 3 zero, 4 generation: our queue pairs answer yours
//   VERDICT        1 type, 1 proved, 2 zero, 4 generation, then why not
//   EXPOSED        1 type, 3 zero, 4 number of the slice, 24 the slice on the control path
//   GOODBYE        1 type, 7 zero, 8 messages sent on the first stream
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace rocecoll {

enum class ControlType : uint8_t {
  kPiece = 1,
  kFrame = 2,
  kOffer = 3,
  kReady = 4,
  kVerdict = 5,
  kExposed = 6,
  kGoodbye = 7,
};

inline constexpr uint32_t kMaxQueuePairsPerLink = 8;
// Longer reasons are cut.
inline constexpr size_t kMaxReasonBytes = 200;

struct RcOffer {
  uint32_t generation = 0;
  uint16_t credits = 0;
  std::vector<uint64_t> received;  // per stream, kMaxQueuePairsPerLink of them
  std::vector<Address> addresses;  // empty: only the control path, for this reason
  std::string reason;
};

struct RcVerdict {
  uint32_t generation = 0;
  bool proved = false;
  std::string reason;
};

struct RcExposed {
  uint32_t number = 0;
  RemoteSlice slice;  // length 0: taken back
};

using WireBytes = std::vector<std::byte>;

WireBytes WriteOffer(const RcOffer& offer);
std::optional<RcOffer> ParseOffer(std::span<const std::byte> frame);
WireBytes WriteReady(uint32_t generation);
std::optional<uint32_t> ParseReady(std::span<const std::byte> frame);
WireBytes WriteVerdict(const RcVerdict& verdict);
std::optional<RcVerdict> ParseVerdict(std::span<const std::byte> frame);
WireBytes WriteExposed(const RcExposed& exposed);
std::optional<RcExposed> ParseExposed(std::span<const std::byte> frame);
WireBytes WriteGoodbye(uint64_t messages);
std::optional<uint64_t> ParseGoodbye(std::span<const std::byte> frame);

// Before every SEND's payload.
//
//   offset  size  field
//        0     1  kind
//        1     1  credits returned for messages of credits
//        2     2  credits returned for frames and writes
//        4     4  low bits of the message's number in its stream; zero in kCredit and kProbe
struct StreamHeader {
  enum class Kind : uint8_t {
    kFrame = 1,   // the owner's frame follows
    kCredit = 2,  // credits only
    kProbe = 3,   // proves the path
  };
  static constexpr size_t kWireBytes = 8;

  Kind kind = Kind::kFrame;
  uint8_t bare_credits = 0;
  uint16_t credits = 0;
  uint32_t number = 0;

  void store(std::span<std::byte> to) const;
  static std::optional<StreamHeader> Parse(std::span<const std::byte> from);
};

}  // namespace rocecoll
