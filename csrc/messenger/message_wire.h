// SPDX-License-Identifier: Apache-2.0
// The frames that messengers exchange, little endian. docs/protocol.md has the same table in words.
//
//   offset  size  field
//        0     1  type, MessageType
//        1     1  flag, 0 or 1; its meaning depends on the type
//        2     2  credits that the frame's sender returns to its receiver
//   CREDIT, STARVED and LISTENING end here. RETIRE goes on with runs of tags, 12 bytes each: first
//   tag, last tag, number of messages with each. The others name a message:
//        4     4  tag: step
//        8     8  tag: operation
//       16     4  tag: slot
//       20     4  zero
//       24     8  length of the message in bytes
//       32    24  fingerprint of the operation
//       56        EAGER: the message. CLEAR_TO_SEND with flag 1: the exposed slice, 36 bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "messenger/messenger.h"

namespace rocecoll {

enum class MessageType : uint8_t {
  kEager = 1,        // a whole message. Flag 1: cleared to be sent, so it costs no credit
  kClearToSend = 2,  // its receive is posted. Flag 1: a slice follows, write into it; flag 0: send
                     // it as an eager frame that costs no credit
  kStarved = 3,      // eager messages wait for credit: clear your posted small receives
  kCredit = 4,       // credits only
  kPending = 5,      // the frame's sender waits for this message. Flag 1: to send it; flag 0: to
                     // receive it. So that mismatches show when otherwise both would wait for ever
  kListening = 6,    // receives from any rank may be posted: say PENDING at once, now and from now
                     // on, for what you cannot send yet
  kRetire = 7,       // runs of tags. Flag 0: I have sent so many messages with each, all of which
                     // you have; may I count them from 0 again? Flag 1: with these of your
                     // question you may, and so do I; with its others not
};

struct MessageFrame {
  static constexpr size_t kHeaderBytes = 56;
  static constexpr size_t kMaxControlBytes = kHeaderBytes + RemoteSlice::kWireBytes;

  MessageType type = MessageType::kCredit;
  bool flag = false;
  uint16_t credits = 0;
  Tag tag;
  uint64_t length = 0;
  Fingerprint fingerprint{};
  RemoteSlice slice;                   // kClearToSend with the flag
  std::span<const std::byte> payload;  // kEager, kRetire; lent from the frame
};

// Returns nullopt for anything malformed: unknown type or flag, wrong size, nonzero padding, a
// length that the payload or the slice contradicts.
std::optional<MessageFrame> ParseMessageFrame(std::span<const std::byte> bytes);
// The payload of kRetire. Returns nullopt if tags are out of range, or runs are not ascending and
// disjoint.
std::optional<std::vector<TagRun>> ParseTagRuns(std::span<const std::byte> payload);
std::vector<std::byte> EncodeTagRuns(std::span<const TagRun> runs);
// How many fit into a frame of this size.
size_t MaxTagRuns(size_t frame_bytes);
// Writes what comes before the payload into the first bytes of `to`, and returns those.
std::span<const std::byte> WriteMessageHead(std::span<std::byte, MessageFrame::kMaxControlBytes> to,
                                            const MessageFrame& frame);

}  // namespace rocecoll
