// SPDX-License-Identifier: Apache-2.0
// An ordered stream of messages, frames and parts of writes, to one peer over one queue pair at a
// time. Messages stay until the peer is known to have them, so that they can go out again over
// another queue pair.
//
// Credits: each frame and each part takes one receive request of the peer, and a stream has as many
// credits as the peer has set aside for it. What a stream owes its peer travels in the header of
// any frame, else, from half of all on, in a message of its own. Those have kBareCredits credits of
// their own, which return in the same headers, or as soon as two are owed: two idle ends do not go
// on thanking each other. That is enough to never get stuck: without hearing of new credits a peer
// can make us say so at most three times (with three credits, half of which are one).
//
// Memory to send from: a write holds what it reads from until its last part has gone, and each
// stream has parts of older writes before those of newer ones. So the oldest write of a link can
// always go on once it has its memory, and what is set aside is for oldest ones only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transport/fast_path.h"
#include "transport/fast_paths/rc/rc_options.h"
#include "transport/fast_paths/rc/receive_pool.h"
#include "transport/fast_paths/rc/registered_memory.h"
#include "transport/fast_paths/rc/stream_header.h"
#include "transport/fast_paths/switching/kept_messages.h"
#include "transport/rdma.h"

namespace rocecoll {

struct RcWrite {
  uint32_t number = 0;  // within the link
  uint64_t age = 0;     // the link's older writes have lower ones
  bool oldest = false;  // of the link's
  RemoteSlice to;       // the lower half of its key is the remote key
  LocalSlice from;
  RegisteredMemory::Lease lease;  // from the first request on
  size_t parts_left = 0;
};

class RcStream {
 public:
  static constexpr size_t kMaxQueuedFrames = 64;
  // Receive requests that a stream with this many credits may take at once.
  static constexpr uint32_t kBareCredits = 4;
  static constexpr uint32_t ReceivesFor(uint32_t credits) { return credits + kBareCredits + 1; }

  // Over that rail. Counts what it sends, in the device's `stats` and in the path's `traffic`.
  RcStream(RdmaDevice& device, size_t rail, RegisteredMemory& memory, TransportStats& stats,
           Traffic& traffic, const RcOptions& options)
      : device_(device),
        rail_(rail),
        memory_(memory),
        stats_(stats),
        traffic_(traffic),
        immediate_apart_(options.adaptive_routing),
        messages_(options.first_number),
        received_(options.first_number) {}
  ~RcStream();
  RcStream(const RcStream&) = delete;
  RcStream& operator=(const RcStream&) = delete;

  // -- the queue pair
  // A new one; the stream must have none.
  Status prepare();
  bool prepared() const { return queue_pair_ != nullptr; }
  RdmaQueuePair& queue_pair() const { return *queue_pair_; }
  uint32_t number() const { return queue_pair_->number(); }
  size_t rail() const { return rail_; }
  Address address() const { return queue_pair_->address(); }
  // To an end on that rail of the peer's. What is still to be sent will be posted from start() on.
  // `credits`: what either end sets aside.
  Status connect(const Address& peer, size_t peer_rail, uint32_t our_credits,
                 uint32_t peer_credits);
  bool connected() const { return connected_; }
  // Sends a message that means nothing; proved() once the peer's device has acknowledged it.
  void probe();
  bool proved() const { return proved_; }
  void start() { started_ = true; }
  // Ends the queue pair's life. drained() once no request of it is outstanding, or the device does
  // not say when; destroy() at any time takes the device's hands off all memory.
  void fail();
  bool failed() const { return failed_; }
  bool drained() const { return queue_pair_ == nullptr || drained_; }
  void destroy();

  // -- messages
  // False: no room now.
  bool push_frame(const FrameBytes& frame);
  // `write` stays where it is until its last part is taken back or comes out of take_done().
  void push_part(RcWrite& write, size_t offset, size_t size);
  // Posts what credits and the send queue allow. Not ok if the stream cannot go on.
  Status pump();
  // The next write found no memory that the device can read, but some is in use.
  bool waits_for_memory() const { return waits_for_memory_; }
  // Has a completion of the newest request asked for, so that empty() tells the truth soon.
  void request_acknowledgement() { wants_acknowledgement_ = true; }
  // Sends a message that means nothing, once there is a credit for it.
  void send_heartbeat() { wants_heartbeat_ = true; }
  bool empty() const { return messages_.empty(); }
  uint64_t unposted_frames() const;
  uint64_t pushed() const { return messages_.pushed(); }
  // Writes all of whose parts the peer has.
  std::vector<RcWrite*> take_done();
  // The peer has the messages before this number. Not after start(). False: it cannot be so.
  bool acknowledge(uint64_t count);
  // Frames that the peer does not have, oldest first; all messages are forgotten. As above.
  std::vector<WireBytes> take_frames();
  // What the peer does not have goes out over another stream: all, or the frames alone. Before
  // either is started. Parts of older writes stay, or come, before those of newer ones.
  enum class HandOver : uint8_t { kAll, kFrames };
  void hand_over(HandOver what, RcStream& to);
  // The writes are no longer there: their parts will not be posted again. After fail() only.
  void forget_writes();

  // -- completions
  void on_connected() { connected_ = !failed_; }
  void on_sent(const WorkCompletion& completion);
  void on_credits(const StreamHeader& header) {
    send_credits_ += header.credits;
    bare_credits_ += header.bare_credits;
  }
  // The receive request that a frame, a part or, if `bare`, a message of credits took is there
  // again.
  void on_reposted(bool bare) { ++(bare ? owed_bare_ : owed_); }
  // Counts a frame or a part that has come.
  uint64_t next_received() const { return received_; }
  void count_received() { ++received_; }

 private:
  struct Message {
    BlockPool::Block block;  // a frame: header and bytes
    size_t size = 0;
    RcWrite* write = nullptr;  // else a part
    size_t offset = 0;
    size_t posted = 0;       // bytes of a part
    uint64_t requested = 0;  // the number after its last request; 0: not all is posted
  };
  static constexpr size_t kBatch = 16;
  // A queue pair's requests are acknowledged in trains of about this many.
  static constexpr uint32_t kSignalEvery = 16;
  // Long enough that requests cost nothing beside their bytes. Each is acknowledged at its end, and
  // devices that go back to the first lost packet (Soft-RoCE) count losses until then as retries of
  // one request: of 512 KiB half fail for good at 5 % loss, and at 1 % they take 7 times as long.
  static constexpr size_t kRequestBytes = size_t{64} << 10;
  // Kept free in the send queue: a message of credits, and the last request of all.
  static constexpr uint32_t kSpareRequests = 2;

  uint32_t room() const;
  StreamHeader make_header(StreamHeader::Kind kind, uint64_t number);
  SendRequest& add_request(SendRequest::Kind kind, std::span<const std::byte> payload,
                           uint32_t local_key);
  void add_frame(Message& message);
  Status add_part_request(Message& message);
  bool must_return_credits() const;
  void add_bare(StreamHeader::Kind kind);
  Status post_batch();
  void settle(const Message& message);
  void release(const Message& message);
  void send_again(Message& message);

  RdmaDevice& device_;
  const size_t rail_;
  RegisteredMemory& memory_;
  TransportStats& stats_;
  Traffic& traffic_;
  const bool immediate_apart_;  // RcOptions::adaptive_routing
  std::unique_ptr<RdmaQueuePair> queue_pair_;

  KeptMessages<Message> messages_;  // sent: wholly posted
  size_t queued_frames_ = 0;
  std::vector<RcWrite*> done_;
  uint64_t received_;

  // Of the present queue pair.
  std::vector<SendRequest> batch_;
  BlockPool::Block bare_headers_;  // of messages without a frame, in turn
  uint64_t requests_ = 0;          // made so far
  uint64_t acknowledged_ = 0;      // known to be done
  uint32_t unsignaled_ = 0;        // since the newest signaled one
  uint32_t max_requests_ = 0;
  size_t peer_rail_ = 0;
  uint32_t our_credits_ = 0;
  uint32_t send_credits_ = 0;
  uint32_t owed_ = 0;
  uint32_t bare_credits_ = 0;
  uint32_t owed_bare_ = 0;
  uint64_t probe_request_ = 0;
  uint64_t last_request_ = 0;  // after fail()
  bool connected_ = false;
  bool started_ = false;
  bool proved_ = false;
  bool failed_ = false;
  bool drained_ = false;
  bool wants_acknowledgement_ = false;
  bool wants_heartbeat_ = false;
  bool waits_for_memory_ = false;
};

}  // namespace rocecoll
