// SPDX-License-Identifier: Apache-2.0
// A ring of messages in shared memory from one process to another, with one writer, one reader and
// no lock. The memory belongs to the reader. A message is there once `tail` is past it, so one that
// is half written when its writer dies is never seen.
//
// Neither side trusts the other. Each copies positions and sizes out of the shared memory before it
// checks them, and keeps the position that it moves itself in its own memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rocecoll {

struct RingEntry {
  enum class Kind : uint32_t {
    kWrap = 1,  // nothing until the end of the ring; the next message is at its front
    kProbe,    // no message; at `address` of the writer lie the 8 bytes `length`, to try kPull with
    kFrame,    // payload: a frame
    kPull,     // a write of `length` bytes lies at `address` of the writer: fetch it
    kPart,     // payload: a part of a write; `address` counts from its beginning
    kNothing,  // a message whose write has been taken back
  };
  Kind kind = Kind::kWrap;
  uint32_t payload_bytes = 0;
  uint32_t slice = 0;  // number of the exposed slice that a write is for
  uint32_t last = 0;   // of a write: it ends here, and the writer wants to know when it is done
  uint64_t address = 0;
  uint64_t length = 0;
};
static_assert(sizeof(RingEntry) == 32);

// At the beginning of the memory. The ring follows.
struct RingHeader {
  static constexpr size_t kBytes = 4096;                  // a page of its own
  static constexpr uint64_t kMagic = 0x31676e6972636f72;  // "rocring1"

  uint64_t magic = kMagic;
  // Written by the writer.
  alignas(64) std::atomic<uint64_t> tail{0};  // bytes that it has written
  std::atomic<uint32_t> revoked{0};           // what it lent for kPull is no longer valid
  std::atomic<uint32_t> wants_bell{0};        // ring when `head` moves
  // Written by the reader.
  alignas(64) std::atomic<uint64_t> head{0};  // bytes whose place is free again
  std::atomic<uint64_t> received{0};          // messages that it has taken
  std::atomic<uint32_t> pulls{0};             // it can read the writer's memory
};
static_assert(sizeof(RingHeader) <= RingHeader::kBytes);

// Room for several parts of the writes of all lanes in flight. With 128 KiB writers had to wait for
// readers, and 1 MiB between two processes took twice as long.
inline constexpr size_t kRingBytes = size_t{512} << 10;
// A writer that is beyond this position starts at the front again as soon as the ring is empty. So
// small messages stay in memory that is in the caches, and the rest is touched only when needed.
inline constexpr size_t kWarmRingBytes = size_t{128} << 10;
inline constexpr size_t kRingSegmentBytes = RingHeader::kBytes + kRingBytes;
// What has its pages from the start. Most pairs never need more, and with 64 ranks on a host a MiB
// a pair would be 2 GiB.
inline constexpr size_t kReadyRingBytes = RingHeader::kBytes + kWarmRingBytes;
// Messages begin on cache lines of their own.
inline constexpr size_t kRingAlignment = 64;
// A payload of this size fits into an empty ring, whatever position that is at.
inline constexpr size_t kMaxRingPayload = kRingBytes / 2 - kRingAlignment;

class RingWriter {
 public:
  explicit RingWriter(std::byte* segment) : segment_(segment) {}

  RingHeader& header() const { return *reinterpret_cast<RingHeader*>(segment_); }
  // Room for a message with this much payload, or null if there is none now. The reader sees
  // nothing before publish().
  std::byte* reserve(size_t payload_bytes);
  // Shows the reader the message whose payload lies where reserve() said.
  void publish(const RingEntry& entry);
  // False if the reader has written what cannot be true.
  bool sound() const { return sound_; }

 private:
  std::byte* at(uint64_t position) const {
    return segment_ + RingHeader::kBytes + position % kRingBytes;
  }
  bool room_for(uint64_t bytes);
  void update_head();
  void wrap();

  std::byte* segment_;
  uint64_t tail_ = 0;
  uint64_t known_head_ = 0;
  bool sound_ = true;
};

class RingReader {
 public:
  // Initializes the header.
  explicit RingReader(std::byte* segment);

  RingHeader& header() const { return *reinterpret_cast<RingHeader*>(segment_); }
  // The next message. Its payload stays where it is until free_read() past it. None if there is no
  // message, or if the writer wrote what cannot be true; then sound() is false.
  struct Message {
    RingEntry entry;
    std::span<const std::byte> payload;
  };
  std::optional<Message> next();
  // Past the message that next() gave.
  void advance() { position_ = next_position_; }
  // Gives the writer back the room of all messages before the next one.
  void free_read() { header().head.store(position_, std::memory_order_seq_cst); }
  bool sound() const { return sound_; }

 private:
  std::byte* segment_;
  uint64_t position_ = 0;
  uint64_t next_position_ = 0;
  uint64_t known_tail_ = 0;
  bool sound_ = true;
};

}  // namespace rocecoll
