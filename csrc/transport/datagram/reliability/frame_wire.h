// SPDX-License-Identifier: Apache-2.0
// The sub-frames in the body of a PACKET, and what follows InitBody in an INIT. docs/protocol.md
// describes the same tables in prose.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/range_set.h"
#include "base/status.h"
#include "base/time.h"

namespace rocecoll {

enum class SubFrameType : uint8_t {
  kAck = 1,
  kPing = 2,  // acknowledge this packet at once
  kFrame = 3,
  kClose = 4,
  kData = 5,     // always last: its payload is the rest of the datagram
  kSettled = 6,  // the sender awaits no acknowledgement of packets below a number
  kPadding = 7,  // always last: the rest of the datagram only adds to its length
  kPiece = 8,    // as kFrame, but the frame continues in the next number
};

// Enough for a burst of a whole window with every third packet lost.
inline constexpr size_t kMaxAckRanges = 128;
inline constexpr size_t kPingBytes = 1;
inline constexpr size_t kSettledBytes = 1 + 8;
inline constexpr size_t kFrameHeaderBytes = 1 + 2 + 8;
inline constexpr size_t kCloseHeaderBytes = 1 + 1 + 2 + 4 + 8;
inline constexpr size_t kMaxCloseMessageBytes = 256;
inline constexpr size_t kDataHeaderBytes = 1 + 8 + 8 + 8;
constexpr size_t AckBytes(size_t ranges) { return 34 + 8 * (ranges - 1); }

struct AckFrame {
  Duration delay{0};        // since the largest packet arrived; microseconds on the wire
  uint32_t arrived_us = 0;  // its arrival by the receiving host's clock (way_back.h)
  uint64_t receive_window = 0;
  uint32_t marked_packets = 0;  // of all that asked for an acknowledgement so far; wraps
  size_t range_count = 0;
  std::array<RangeSet::Range, kMaxAckRanges> ranges;  // of packet numbers, highest first

  uint64_t largest() const { return ranges[0].end - 1; }
};

struct FrameField {
  uint64_t sequence = 0;
  std::span<const std::byte> bytes;  // at least one
  bool ends = true;                  // these bytes end the frame
};

struct DataField {
  uint64_t region = 0;
  uint64_t key = 0;
  uint64_t offset = 0;
  std::span<const std::byte> payload;  // at least one byte
};

struct CloseField {
  StatusCode code = StatusCode::kOk;
  Rank reporter = 0;            // the rank that found the error; 0 with kOk
  uint64_t final_sequence = 0;  // frames below this come before the CLOSE takes effect
  std::string_view message;
};

// The body of one PACKET. Spans lend from the datagram. Objects are reused and keep their memory.
struct PacketBody {
  bool has_ack = false;
  AckFrame ack;
  std::optional<uint64_t> settled;
  bool ping = false;
  std::vector<FrameField> frames;
  std::optional<CloseField> close;
  std::optional<DataField> data;

  // Whether the peer wants an acknowledgement.
  bool eliciting() const { return ping || !frames.empty() || close || data; }
};

// The rest of an INIT's body, after InitBody.
struct InitParameters {
  static constexpr size_t kWireBytes = 8 + 4 + 4;
  uint64_t receive_window = 0;
  uint32_t max_datagram_bytes = 0;
};

// False if the body is malformed in any way; `out` is then unspecified.
bool ParsePacketBody(std::span<const std::byte> body, PacketBody& out);
std::optional<InitParameters> ParseInitParameters(std::span<const std::byte> init_datagram);

// Callers check for room first: AckBytes(ack.range_count), or k...HeaderBytes plus content.
void WriteAck(ByteWriter& to, const AckFrame& ack);
void WritePing(ByteWriter& to);
void WriteSettled(ByteWriter& to, uint64_t below);
// The last sub-frame; `bytes` includes its type.
void WritePadding(ByteWriter& to, size_t bytes);
void WriteFrame(ByteWriter& to, const FrameField& frame);
// Does not write the frame's bytes, which follow the header separately.
void WriteFrameHeader(ByteWriter& to, const FrameField& frame);
void WriteClose(ByteWriter& to, const CloseField& close);
// Does not write the payload, which follows the header separately.
void WriteDataHeader(ByteWriter& to, const DataField& data);
void WriteInitParameters(ByteWriter& to, const InitParameters& parameters);

}  // namespace rocecoll
