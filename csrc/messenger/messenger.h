// SPDX-License-Identifier: Apache-2.0
// Tagged messages between the ranks of one group, written once for all transports.
//
// A message of at most eager_limit() goes as one frame as soon as it is sent, on credits that bound
// what a receiver must buffer. A larger one waits until the receiver, having posted its buffer,
// exposes it and sends clear-to-send; then it is written in place, in pieces of at most what the
// transport takes in one write, a few of which are exposed at a time. A sender without credit tells
// the receiver so once (STARVED), which then clears its posted small receives to be sent, too: a
// posted receive always gets its message, whatever unexpected ones are buffered before it.
//
// Passive: completions and failures are polled; nothing calls back. Belongs to one group.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/shared_vector.h"
#include "base/status.h"
#include "base/time.h"
#include "transport/transport.h"

namespace rocecoll {

// Pairs a send with its receive: unique among the messages of a group that are outstanding between
// two ranks in one direction.
struct Tag {
  static constexpr uint32_t kLargestUserTag = 0x7fffffff;

  uint64_t operation = 0;  // sequence number of a collective; for send/recv bit 63 set, user's tag
                           // in bits 32..62, number of the message with that tag in bits 0..31,
                           // from 0 on since the tag was last retired
  uint32_t step = 0;
  uint32_t slot = 0;  // lane << 16 | index of the transfer's segment in the step

  static uint64_t OperationOf(uint32_t user_tag, uint32_t number) {
    return uint64_t{1} << 63 | uint64_t{user_tag} << 32 | number;
  }
  bool is_collective() const { return operation >> 63 == 0; }
  uint32_t user_tag() const { return static_cast<uint32_t>(operation >> 32) & kLargestUserTag; }
  friend bool operator==(const Tag&, const Tag&) = default;
};

// What the operation is, as its caller described it. Travels in every message so that ranks that
// call different things learn so instead of mixing bytes. Made by engine/operations/fingerprint.h;
// opaque here.
using Fingerprint = std::array<std::byte, 24>;

struct MessageCompletion {
  uint64_t token = 0;
  // Of a send that was copied into its link and has perhaps yet to leave this process: see
  // Messenger::has_left(). 0: there is nothing to wait for.
  Rank to = 0;
  uint64_t frame = 0;
};

// A peer waits to send this message, for which no receive is posted here.
struct Announcement {
  Rank from = 0;
  Tag tag;
  uint64_t arrival = 0;
};

// User's tags first..last, `count` messages with each of them.
struct TagRun {
  uint32_t first = 0;
  uint32_t last = 0;
  uint32_t count = 0;
  friend bool operator==(const TagRun&, const TagRun&) = default;
};

// A peer's question or answer about tags to be counted from 0 again (engine/tags/tag_retirement.h).
struct RetireWord {
  Rank from = 0;
  bool answer = false;       // otherwise a question
  std::vector<TagRun> runs;  // ascending, disjoint
};

// The first thing that went wrong; the messenger stops working after it.
struct MessengerFailure {
  Status status;
  Rank peer = 0;
  // kMismatch: what we posted and what the peer sent under the same tag.
  Fingerprint ours{};
  Fingerprint theirs{};
  bool fingerprints_differ = false;  // false with kMismatch: the lengths differ
  uint64_t our_bytes = 0;
  uint64_t their_bytes = 0;
  Tag tag;
};

// A rank from which something is awaited, and what its link knows about it.
struct AwaitedRank {
  Rank rank = 0;
  LinkContact contact;
};

// A rank with a link to it, and what the link knows about it.
struct LinkedRank {
  Rank rank = 0;
  std::optional<LinkContact> contact;
  std::vector<PathStats> paths;
};

struct MessengerOptions {
  size_t eager_bytes = 0;       // 0 means what the transport prefers, within EagerBounds
  uint32_t eager_credits = 64;  // at most this many frames per link are buffered by the receiver
  uint32_t max_early_clear_to_send = 1u << 16;  // per link, before the link fails
  // How long the peer may take to open its side of a link. A rank may reach its first operation at
  // any time, so the deadlines of the operations are the real bound.
  Duration connect_timeout = std::chrono::hours(24 * 365);
};

// The same for all ranks of a group.
struct EagerLimit {
  size_t bytes = 0;     // messages up to this size go without asking
  uint32_t pieces = 1;  // a longer one is better cut into up to this many such messages
};

class Messenger {
 public:
  // `addresses[r]` reaches rank r of the group; `self` is this rank. Links open on first use.
  Messenger(Transport& transport, const GroupKey& group, Rank self,
            const SharedVector<Address>& addresses, const MessengerOptions& options);
  ~Messenger();  // closes all links in good order unless failed

  EagerLimit eager_limit() const;
  // The transport's, towards the worst pair of the group.
  const TransportLimits& limits() const;
  // Both complete through poll() with `token`, in any order. `from` / `into` are lent until then or
  // until fail() returns. Zero-size messages are allowed. The sizes at both ends must agree.
  void send(Instant now, Rank to, const Tag& tag, const Fingerprint& fingerprint, LocalSlice from,
            uint64_t token);
  void recv(Instant now, Rank from, const Tag& tag, const Fingerprint& fingerprint, LocalSlice into,
            uint64_t token);
  // For receives from any rank: opens the links to all others, and from now on they announce at
  // once the point-to-point messages that they cannot send yet (large ones, or without credit).
  void listen(Instant now);
  // Counts messages that came before their receive was posted, and announcements.
  uint64_t arrivals() const;
  // The message's number among the arrivals, if it came before its receive and is still here.
  std::optional<uint64_t> arrival(Rank from, const Tag& tag) const;
  // Returns each announcement once. One may be late: its message may have been received since.
  std::vector<Announcement> take_announcements();
  // Asks the peer to number the messages that go to it with these tags from 0 again, or agrees to
  // that. At most as many as fit into a frame (MaxTagRuns). In order with messages. False if there
  // is no room now.
  bool send_retire(Rank to, bool answer, std::span<const TagRun> runs);
  std::vector<RetireWord> take_retire_words();
  // Whether there is a link to the peer, which the peer may have yet to open.
  bool connected(Rank peer) const;
  // Whether the frame of a completed send would reach its rank even if this process ended now,
  // unless the network lost it.
  bool has_left(Rank to, uint64_t frame) const;
  // Links that went down for any other reason than that their rank left, oldest first, whether or
  // not anything was pending on them; and how many ranks have left.
  const std::vector<MessengerFailure>& lost() const;
  uint32_t peers_left() const;
  // The peer opens its side of the link (Event::kIncoming): opens ours, unless it is or was open.
  void accept(Instant now, Rank peer);
  // The peer has left in good order, and has nothing more to deliver.
  void on_left(Rank peer);
  // Feeds an event. True if it is of one of this messenger's links.
  bool on_event(Instant now, const Event& event);
  // Retries what found no room, returns credits, and announces to peers what has waited long. Call
  // once per engine step, and not later than next_deadline(). May complete sends: poll() after it.
  void flush(Instant now);
  Instant next_deadline() const;
  bool poll(MessageCompletion& completion);
  // Set once a link went down while something was pending on it, or had yet to leave over it, or a
  // mismatch was found.
  const MessengerFailure* failure() const;
  // Ranks that pending sends and receives of the operation wait for, ascending, for messages to
  // users.
  std::vector<Rank> waiting_for(const Tag& first_of_operation) const;
  // All ranks that anything posted waits for, ascending, if their links know the contact.
  std::vector<AwaitedRank> awaited() const;
  // All ranks with a link, ascending.
  std::vector<LinkedRank> linked() const;
  // Closes all links with `why`; on return every lent slice is the caller's again. No completion
  // follows.
  void fail(const Status& why);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rocecoll
