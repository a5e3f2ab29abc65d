// SPDX-License-Identifier: Apache-2.0
// An ordered stream of messages, frames and parts of writes, to one peer over one queue pair at a
// time. Messages stay until the peer is known to have them (switching/kept_messages.h), so that
// they can go out again over another queue pair. It sends nothing that the peer has no receive
// request for (stream_credits.h).
//
// Memory to send from: a write holds the memory that it is read from until its last part has gone.
// Each stream has the parts of older writes before those of newer ones, so the oldest write of a
// link can always go on once it has its memory, and what is set aside is for oldest writes only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transport/fast_path.h"
#include "transport/fast_paths/rc/rc_options.h"
#include "transport/fast_paths/rc/receive_pool.h"
#include "transport/fast_paths/rc/registered_memory.h"
#include "transport/fast_paths/rc/send_queue.h"
#include "transport/fast_paths/rc/stream_credits.h"
#include "transport/fast_paths/rc/stream_header.h"
#include "transport/fast_paths/switching/kept_messages.h"
#include "transport/rdma.h"

namespace rocecoll {

struct RcWrite {
  uint32_t number = 0;  // within the link
  uint64_t age = 0;     // the link's older writes have lower ones
  bool oldest = false;  // of those of the link
  RemoteSlice to;       // the lower half of its key is the remote key
  LocalSlice from;
  RegisteredMemory::Lease lease;  // held from the first request on
  size_t parts_left = 0;
};

class RcStream {
 public:
  static constexpr size_t kMaxQueuedFrames = 64;

  // Over that rail. Counts what it sends in the device's `stats` and in the path's `traffic`.
  RcStream(RdmaDevice& device, size_t rail, RegisteredMemory& memory, TransportStats& stats,
           Traffic& traffic, const RcOptions& options)
      : device_(device),
        rail_(rail),
        memory_(memory),
        stats_(stats),
        traffic_(traffic),
        immediate_apart_(options.adaptive_routing),
        queue_(device, stats, traffic),
        messages_(options.first_number),
        received_(options.first_number) {}
  ~RcStream();
  RcStream(const RcStream&) = delete;
  RcStream& operator=(const RcStream&) = delete;

  // -- the queue pair
  // Makes a new one; the stream must have none.
  Status prepare();
  bool prepared() const { return queue_.prepared(); }
  RdmaQueuePair& queue_pair() const { return queue_.queue_pair(); }
  uint32_t number() const { return queue_pair().number(); }
  size_t rail() const { return rail_; }
  Address address() const { return queue_pair().address(); }
  // Connects to an end on that rail of the peer's. Messages are posted from start() on.
  // `our_credits` and `peer_credits` are what either end sets aside for the other.
  Status connect(const Address& peer, size_t peer_rail, uint32_t our_credits,
                 uint32_t peer_credits);
  bool connected() const { return queue_.connected(); }
  // Sends an empty message. proved() is true once the peer's device has acknowledged it.
  void probe();
  bool proved() const { return proved_; }
  void start() { started_ = true; }
  // As of SendQueue.
  void fail() { queue_.fail(); }
  bool failed() const { return queue_.failed(); }
  bool drained() const { return queue_.drained(); }
  void destroy() { queue_.destroy(); }

  // -- messages
  // False: no room now.
  bool push_frame(const FrameBytes& frame);
  // `write` must stay where it is until take_done() returns it, or forget_writes().
  void push_part(RcWrite& write, size_t offset, size_t size);
  // Posts as much as credits and the send queue allow. Not ok if the stream cannot go on.
  Status pump();
  // The next write found no memory that the device can read, but will once some is given back.
  bool waits_for_memory() const { return waits_for_memory_; }
  // Asks for a completion of the newest request, so that empty() is up to date soon.
  void request_acknowledgement() { wants_acknowledgement_ = true; }
  // Sends an empty message as soon as there is a credit for it.
  void send_heartbeat() { wants_heartbeat_ = true; }
  bool empty() const { return messages_.empty(); }
  uint64_t unposted_frames() const;
  uint64_t pushed() const { return messages_.pushed(); }
  // The writes that the peer has all parts of.
  std::vector<RcWrite*> take_done();
  // The peer has the messages before this number. Must not be called after start(). False if that
  // cannot be true.
  bool acknowledge(uint64_t count);
  // Drops all messages and returns the frames among them, oldest first. Not after start() either.
  std::vector<WireBytes> take_frames();
  // Has messages that the peer does not have go out over another stream: all of them, or only
  // frames. Neither stream may be started. Parts of older writes stay in front of those of newer
  // ones.
  enum class HandOver : uint8_t { kAll, kFrames };
  void hand_over(HandOver what, RcStream& to);
  // The writes are gone: their parts will not be posted again. Only after fail().
  void forget_writes();

  // -- completions
  void on_connected() { queue_.on_connected(); }
  void on_sent(const WorkCompletion& completion);
  void on_credits(const StreamHeader& header) { credits_.on_returned(header); }
  // The receive request that a frame, a part or, if `bare`, a message of credits took is posted
  // again.
  void on_reposted(bool bare) { credits_.owe(bare); }
  // Counts a frame or a part that has come.
  uint64_t next_received() const { return received_; }
  void count_received() { ++received_; }

 private:
  struct Message {
    BlockPool::Block block;  // a frame: header and bytes
    size_t size = 0;
    RcWrite* write = nullptr;  // else a part
    size_t offset = 0;
    size_t posted = 0;       // bytes of a part that are in requests
    uint64_t requested = 0;  // the number of its last request; 0: that is not made yet
  };
  static constexpr size_t kBatch = 16;
  // Long enough that the cost of a request does not matter beside that of its bytes. A request is
  // acknowledged at its end, and a device that goes back to the first lost packet (Soft-RoCE)
  // counts all losses until then as retries of that request. Of requests of 512 KiB half fail for
  // good at 5 % loss, and at 1 % they take 7 times as long.
  static constexpr size_t kRequestBytes = size_t{64} << 10;

  void store_header(StreamHeader::Kind kind, uint64_t number, std::span<std::byte> to);
  SendRequest& add_bare(StreamHeader::Kind kind);
  void add_frame(Message& message);
  Status add_part_request(Message& message);
  Status add_messages();
  void add_credits();
  void settle(const Message& message);
  void release(const Message& message);
  void send_again(Message& message);

  RdmaDevice& device_;
  const size_t rail_;
  RegisteredMemory& memory_;
  TransportStats& stats_;
  Traffic& traffic_;
  const bool immediate_apart_;  // RcOptions::adaptive_routing

  // Of the present queue pair.
  SendQueue queue_;
  StreamCredits credits_;
  BlockPool::Block
      bare_headers_;  // slots for the headers of messages without a frame, used in turn
  size_t peer_rail_ = 0;
  uint64_t probe_request_ = 0;
  bool started_ = false;
  bool proved_ = false;
  bool wants_acknowledgement_ = false;
  bool wants_heartbeat_ = false;
  bool waits_for_memory_ = false;

  // Of all queue pairs.
  KeptMessages<Message> messages_;  // sent: wholly posted
  size_t queued_frames_ = 0;
  std::vector<RcWrite*> done_;
  uint64_t received_;
};

}  // namespace rocecoll
