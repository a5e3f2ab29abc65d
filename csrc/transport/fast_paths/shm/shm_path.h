// SPDX-License-Identifier: Apache-2.0
// Shared memory as the faster path of one link: each end has a ring that the other one writes into.
//
// Frames go through the ring. A write is fetched by its receiver straight out of the sender's
// memory where the system permits that (memory_pull.h; found out by the probe), in one copy; else
// it goes through the ring in parts. What fetches does so while the sender still lends: one that
// has taken its memory back says so first (`revoked`), and what was fetched after that is thrown
// away.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/fast_path.h"
#include "transport/fast_paths/shm/memory_pull.h"
#include "transport/fast_paths/shm/peer_process.h"
#include "transport/fast_paths/shm/shared_segment.h"
#include "transport/fast_paths/shm/shm_end.h"
#include "transport/fast_paths/shm/shm_ring.h"
#include "transport/fast_paths/switching/kept_messages.h"

namespace rocecoll {

class ShmDevice;
class ShmPath;

// The ring that a path reads. Stays until the frames that were handed out from it are back.
struct ReceiveRing {
  explicit ReceiveRing(SharedSegment s) : segment(std::move(s)), reader(segment.data()) {}

  SharedSegment segment;
  RingReader reader;
  uint32_t leases = 0;
  ShmPath* path = nullptr;  // null: the path has another one, or is gone
};

class ShmPath final : public FastPath {
 public:
  explicit ShmPath(ShmDevice& device);
  ~ShmPath() override { destroy(); }

  Status prepare() override;
  Ends ends() const override;
  Status connect(const Ends& peer) override;
  bool connected() const override { return !failed_; }
  Status probe() override;
  bool proved() const override { return proved_; }
  void start() override { started_ = true; }
  void fail() override;
  bool failed() const override { return failed_; }
  bool drained() const override { return failed_ || receive_ == nullptr; }
  void destroy() override;
  std::vector<WireBytes> give_up() override;
  PathStats stats() const override { return {"shm", false, traffic_, {}, {}}; }
  std::string carrier() const override;

  Counts received() const override { return {received_}; }
  bool acknowledge(const Counts& received) override;
  uint64_t pushed() const override { return messages_.pushed(); }
  uint64_t unsent() const override;
  bool empty() const override { return messages_.empty(); }
  void request_acknowledgement() override { wants_acknowledgement_ = true; }
  bool push_frame(const FrameBytes& frame) override;
  void push_write(uint32_t number, const RemoteSlice& to, LocalSlice from) override;
  Status pump() override;
  std::vector<uint32_t> take_written() override { return std::exchange(written_, {}); }
  Result<RemoteSlice> expose(uint32_t number, LocalSlice into) override;
  bool take_back(uint32_t number) override;
  void forget_lent() override;

  // -- for the device
  uint64_t nonce() const { return nonce_; }
  // The peer's ring and process, in answer to this generation's ends.
  void on_greeting(std::shared_ptr<PeerProcess> peer, SharedSegment ring);
  // What came in place of these.
  void refuse(std::string why);
  // Tries again to introduce ourselves. False: there is no room yet.
  bool greet_again();
  // The peer has rung. True: something may have become of what was sent.
  bool on_bell(FastEvent& event);
  // The next thing that has happened. False: nothing more now.
  bool look(FastEvent& event);
  // No frame of the ring is lent any more.
  void on_all_released();
  const PeerProcess* peer() const { return peer_.get(); }

 private:
  // Parts of writes through the ring: long enough to be worth it, short enough that the peer copies
  // one out while the next one is copied in.
  static constexpr size_t kPartBytes = size_t{32} << 10;
  // A shorter write goes through the ring: to find the sender's pages costs the kernel as much as
  // to copy them, so that two copies are faster, down to 0.3 of the time at 128 KiB.
  static constexpr size_t kFetchFrom = size_t{192} << 10;
  // Up to here CopyChoice decides. A longer one, of which little is in any cache when its end has
  // come, is fetched: 16 MiB from one rank to another took 0.8 of the time that way.
  static constexpr size_t kChooseUpTo = size_t{1} << 20;
  // One part in so many is timed.
  static constexpr size_t kTimedEvery = 4 * kPartBytes;
  // Of a write that is fetched: others have their turn, too, and heartbeats.
  static constexpr size_t kFetchBytes = size_t{4} << 20;
  // What is handed over of it is fetched into the beginning of the slice, again and again: into
  // what the processor's caches have.
  static constexpr size_t kHandOverBytes = size_t{128} << 10;
  // Frames that the peer may not have yet are told apart from those it has when there are so many.
  static constexpr size_t kSettleEvery = 32;

  struct Message {
    std::span<const std::byte> frame;  // in the peer's ring
    WireBytes saved;                   // a frame that has to go out (again)
    bool is_write = false;
    uint32_t write = 0;
    size_t offset = 0;  // of a write: from here on
    size_t size = 0;
  };
  struct Write {
    uint32_t slice = 0;
    LocalSlice from;
    bool fetched = false;  // where the peer can
  };
  struct Exposure {
    LocalSlice into;
    size_t landed = 0;
    bool fetching = false;  // what has landed was fetched

    // The next `size` bytes to its intake, in place of its memory.
    bool hands_over(size_t size) const {
      const bool fits = size % Intake::kPieceBytes == 0 || landed + size == into.size;
      return fits && into.intake != nullptr && into.intake->taken_bytes() == landed;
    }
  };

  // -- shm_path.cc: generations, and what is sent
  Result<bool> greet();
  bool post(Message& message);
  const std::byte* post_payload(const RingEntry& entry, const FrameBytes& payload);
  void count_sent(size_t bytes);
  void find_fault(std::string text);
  bool post_write(Message& message);
  void settle();
  void drop(const Message& message);
  void ring_peer();
  void send_probe();
  void set_expecting(bool expecting);

  // -- shm_path_receive.cc: what is received
  bool expects_news() const;
  bool take(const RingReader::Message& message, FastEvent& event);
  void take_probe(const RingEntry& entry);
  bool take_write(const RingReader::Message& message, FastEvent& event);
  bool landed(uint32_t slice, FastEvent& event);
  void took(bool tell);
  void say_taken(bool tell);
  void count_received(size_t bytes);
  bool fetch(const RingEntry& entry, Exposure& exposure, FastEvent& event);
  const char* fetch_some(uint64_t address, Exposure& exposure, size_t size);
  bool take_part(const RingReader::Message& message, Exposure& exposure, FastEvent& event);
  void copy_part(std::span<const std::byte> part, const Exposure& exposure);
  void took_to_copy(CopyChoice::Copy which, size_t bytes, Duration time);
  bool broken(FastEvent& event, const char* text);

  ShmDevice& device_;

  // Of this generation.
  std::unique_ptr<ReceiveRing> receive_;  // null: there are no ends
  uint64_t nonce_ = 0;
  uint32_t slot_ = 0;
  ShmEnd peer_end_;
  MemoryMark peer_mark_;  // its cookie
  HostSocketAddress peer_socket_;
  std::shared_ptr<PeerProcess> peer_;
  SharedSegment send_segment_;
  std::optional<RingWriter> send_;
  bool expecting_ = false;  // the peer's greeting
  bool probing_ = false;
  bool proved_ = false;
  bool started_ = false;
  bool failed_ = true;
  bool peer_fetches_ = false;  // what we write
  bool wants_room_ = false;    // something waits for room in the peer's ring
  bool waits_ = false;         // the message that is there has its turn later
  std::string fault_;          // empty: none

  // Of all generations.
  Traffic traffic_;
  KeptMessages<Message> messages_;  // sent: in the ring
  size_t writes_in_ring_ = 0;
  uint64_t received_;
  bool wants_acknowledgement_ = false;
  bool cannot_fetch_;    // it has failed, or is not wanted
  uint64_t cookie_ = 0;  // what the peer tries to fetch; beside all that it does, until revoked
  std::unordered_map<uint32_t, Write> writes_;
  std::unordered_map<uint32_t, Exposure> exposures_;
  std::vector<uint32_t> written_;
};

}  // namespace rocecoll
