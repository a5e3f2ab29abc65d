// SPDX-License-Identifier: Apache-2.0
// The receiving side of a path: the messages in its ring, and the slices that the peer writes to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>

#include "transport/fast_path.h"
#include "transport/fast_paths/shm/memory_pull.h"
#include "transport/fast_paths/shm/peer_end.h"
#include "transport/fast_paths/shm/shared_segment.h"
#include "transport/fast_paths/shm/shm_options.h"
#include "transport/fast_paths/shm/shm_ring.h"

namespace rocecoll {

class ShmPath;

// The ring that a path reads. It stays until all frames that were lent from it are given back.
struct ReceiveRing {
  explicit ReceiveRing(SharedSegment s) : segment(std::move(s)), reader(segment.data()) {}

  SharedSegment segment;
  RingReader reader;
  uint32_t leases = 0;
  ShmPath* path = nullptr;  // null: the path has another ring, or is gone
};

class ShmReceiver {
 public:
  // Counts what has come in the device's `stats` and in the path's `traffic`.
  ShmReceiver(PeerEnd& peer, TransportStats& stats, Traffic& traffic, const ShmOptions& options)
      : peer_(peer),
        stats_(stats),
        traffic_(traffic),
        received_(options.first_number),
        cannot_fetch_(!options.fetch) {}

  // -- a generation
  void prepare(SharedSegment ring, ShmPath& path);
  bool prepared() const { return ring_ != nullptr; }
  SharedSegment& segment() const { return ring_->segment; }
  // Takes the ring out. It belongs to no path any more.
  std::unique_ptr<ReceiveRing> disconnect();

  // -- messages
  // The number of the next message that comes.
  uint64_t received() const { return received_; }
  // The peer numbers its messages from `first_number` again.
  void start_over(uint64_t first_number) { received_ = first_number; }
  // kLater: the message that is there has to wait for the next batch.
  enum class Found : uint8_t { kNothing, kEvent, kLater };
  // Takes messages until one of them is an event for the link, and fills `event` in, whose path is
  // set. The event kFailed tells of a message that cannot be. The peer's process must be known.
  Found look(FastEvent& event);
  // No frame of the ring is lent any more.
  void on_all_released() { say_taken(/*tell=*/false); }

  // -- slices
  RemoteSlice expose(uint32_t number, LocalSlice into);
  // False if part of it has been written.
  bool take_back(uint32_t number);
  void forget_exposed() { exposures_.clear(); }

 private:
  // This much of a write is fetched at a time, so that other links and heartbeats have their turn.
  static constexpr size_t kFetchBytes = size_t{4} << 20;
  // Likewise of messages that are no events, such as parts of a write: as many bytes of these. A
  // writer that is as fast as this process never leaves the ring empty.
  static constexpr int kMessagesPerTurn = 128;
  // Bytes for an intake are fetched in pieces of this size, always into the beginning of the slice,
  // which therefore stays in the processor's caches.
  static constexpr size_t kHandOverBytes = size_t{128} << 10;

  struct Exposure {
    LocalSlice into;
    size_t landed = 0;
    bool fetching = false;  // the bytes that have landed were fetched

    // Whether the next `size` bytes go to the intake of the slice instead of its memory.
    bool hands_over(size_t size) const {
      const bool fits = size % Intake::kPieceBytes == 0 || landed + size == into.size;
      return fits && into.intake != nullptr && into.intake->taken_bytes() == landed;
    }
  };

  Found take(const RingReader::Message& message, FastEvent& event);
  void take_probe(const RingEntry& entry);
  Found take_write(const RingReader::Message& message, FastEvent& event);
  Found landed(uint32_t slice, FastEvent& event);
  void took(bool tell);
  void say_taken(bool tell);
  void count(size_t bytes);
  Found fetch(const RingEntry& entry, Exposure& exposure, FastEvent& event);
  const char* fetch_some(uint64_t address, Exposure& exposure, size_t size);
  Found take_part(const RingReader::Message& message, Exposure& exposure, FastEvent& event);

  PeerEnd& peer_;
  TransportStats& stats_;
  Traffic& traffic_;
  std::unique_ptr<ReceiveRing> ring_;  // null: there are no ends
  MemoryMark peer_mark_;               // the peer's cookie
  uint64_t received_;
  bool cannot_fetch_;  // fetching has failed, or is switched off
  std::unordered_map<uint32_t, Exposure> exposures_;
};

}  // namespace rocecoll
