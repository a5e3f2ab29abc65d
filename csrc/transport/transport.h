// SPDX-License-Identifier: Apache-2.0
// A reliable link to one peer (Link) and the process's set of links (Transport). There are only two
// verbs: ordered small frames, and placed writes into memory that the receiver has exposed. RC
// queue pairs have both natively, the reliability layer offers them over datagrams, and the
// simulator models them. Used by one thread at a time. All effects are reported by poll().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/rank.h"
#include "base/status.h"
#include "base/time.h"
#include "transport/address.h"
#include "transport/frame_bytes.h"
#include "transport/group_key.h"
#include "transport/intake.h"
#include "transport/obstacle.h"
#include "transport/path_stats.h"
#include "transport/wait_handle.h"

namespace rocecoll {

// Names a link at one of its ends: within the group whose 128-bit key both ends hold, `local` talks
// to `remote`. The peer's id of the same link is mirrored(). A key is never reused.
struct LinkId {
  GroupKey group;
  Rank local = 0;
  Rank remote = 0;

  LinkId mirrored() const { return {group, remote, local}; }
  friend bool operator==(const LinkId&, const LinkId&) = default;
};

struct LinkIdHash {
  size_t operator()(const LinkId& id) const {
    return HashWords({id.group.high, id.group.low, uint64_t{id.local} << 32 | id.remote});
  }
};

using RegistrationId = uint32_t;
inline constexpr RegistrationId kUnregistered = 0;

// Memory of this process that is lent to a link. `registration` is what MemoryDomain returned for
// the memory around it; transports that do not register memory ignore it.
struct LocalSlice {
  std::byte* data = nullptr;
  size_t size = 0;
  RegistrationId registration = kUnregistered;
  Intake* intake = nullptr;  // may take what is written into the slice; lent like the memory
};

// Memory that the peer has exposed. Opaque to everything but the transport that made it; travels in
// a frame (kWireBytes, little endian).
struct RemoteSlice {
  static constexpr size_t kMaxPorts = 4;  // ports of a process that it can have keys for
  static constexpr size_t kMoreKeys = kMaxPorts - 1;
  static constexpr size_t kWireBytes = 24 + kMoreKeys * sizeof(uint32_t);
  uint64_t base = 0;                            // address, or region id
  uint64_t length = 0;                          // bytes
  uint64_t key = 0;                             // rkey, or a random cookie
  std::array<uint32_t, kMoreKeys> more_keys{};  // rkeys of further ports of the process

  void store(ByteWriter& to) const {
    to.Write(base);
    to.Write(length);
    to.Write(key);
    for (const uint32_t more : more_keys) to.Write(more);
  }
  static RemoteSlice load(ByteReader& from) {
    RemoteSlice slice;
    slice.base = from.Read<uint64_t>();
    slice.length = from.Read<uint64_t>();
    slice.key = from.Read<uint64_t>();
    for (uint32_t& more : slice.more_keys) more = from.Read<uint32_t>();
    return slice;
  }
};

// What is known of the process at the other end, for messages to people.
struct LinkContact {
  Instant heard_at{};  // when the peer was last heard, or when the link was opened, if later
  bool ever_heard = false;
  bool established = false;             // the peer has opened its side, too
  Obstacle obstacle = Obstacle::kNone;  // since it was last heard
  // After this long without hearing from it, the peer is asked for a sign of life.
  Duration heartbeat_interval = std::chrono::milliseconds(500);
};

class Link {
 public:
  virtual ~Link() = default;

  virtual LinkId id() const = 0;
  // Copies the frame (1 .. max_frame_bytes) into a bounded queue. The peer gets each frame once, in
  // order. False: no room now; try again after the next poll(). Allowed before the peer has
  // answered. Once the link is down, it does nothing and returns true.
  virtual bool send_frame(const FrameBytes& frame) = 0;
  // How many frames, at most, would be lost if this process ended now and the network lost nothing:
  // accepted but not yet sent, or only in this process's memory. Once a link is down: as of then.
  virtual uint64_t unsent_frames() const = 0;
  // Writes all of `from` into `to` (equal sizes, at least 1 byte). `from` is lent until
  // Written{token} or close(), and only read. False: the bounded queue of writes is full.
  virtual bool write(const RemoteSlice& to, LocalSlice from, uint32_t token) = 0;
  // Lets the peer write `into` once, as a whole. Lent until Landed{token}, unexpose() or close().
  virtual RemoteSlice expose(LocalSlice into, uint32_t token) = 0;
  // Takes an exposed slice back before anything was written through it (checked).
  virtual void unexpose(const RemoteSlice& slice) = 0;
  // When this returns, lent memory is neither written nor read any more, and no event of this link
  // will be polled. With an ok status the link closes in good order: frames already accepted are
  // still delivered in the background, then the peer sees kPeerLeft. With any other status the peer
  // sees `why` as reported by why.reporter(), or by this end if there is none. The link must not be
  // used afterwards.
  virtual void close(const Status& why) = 0;
  // ok until Down was polled, then the reason. If the peer has closed its end because of an error,
  // the status has a reporter and that rank's text.
  virtual const Status& status() const = 0;
  // The peer's process has shown itself alive in a way that this link does not see, so it is not
  // silent. What its system or device does on its own does not count.
  virtual void vouch(Instant /*now*/) {}
  // nullopt from links that do not know.
  virtual std::optional<LinkContact> contact() const { return std::nullopt; }
  // The paths that it has used; empty from links that do not know. For people: allocates.
  virtual std::vector<PathStats> path_stats() const { return {}; }
};

// Whether a link is down because its peer closed it in good order.
inline bool LeftInGoodOrder(const Status& down) {
  return down.code() == StatusCode::kPeerLeft && !down.reporter();
}

struct TransportLimits {
  size_t max_frame_bytes = 0;
  // Writes shorter than this gain nothing over frames. The messenger derives its eager limit from
  // it.
  size_t preferred_eager_bytes = 0;
  // Up to this many eager messages in place of a longer one cost less than waiting for a
  // clear-to-send. On loopback two of 32 KiB took 0.6 to 0.9 of the time of one of 64 KiB; four
  // gained nothing.
  uint32_t eager_pieces = 2;
  // Longer messages take several writes, so that one message ties up the memory of only a few of
  // them: a device must have it registered, and longer writes would hold up everything behind them.
  size_t max_write_bytes = SIZE_MAX;
  // Large messages to one peer; more gain nothing. The two ends may differ.
  uint32_t messages_in_flight = UINT32_MAX;
  // Operations of up to this many lanes gain if a lane's neighbouring steps overlap, so that no
  // message waits for a clear-to-send, which travels with packets of the other direction. Over UDP
  // on one host 256 KiB to 1 MiB took 0.8 to 1.0 of the time, with 2, 3 and 4 ranks on two cores.
  // More lanes fill the waiting time themselves, unless the round trip is long.
  uint32_t overlapping_lanes = 3;
};

struct Event {
  enum class Kind : uint8_t {
    kFrame,    // `frame` is lent until the next poll() or transmit()
    kWritten,  // the peer has the whole write; its source is no longer lent
    kLanded,   // an exposed slice has been written completely
    kDown,     // link->status() says why; this link has no further events
    kNotice,   // `frame` holds a notice (see Transport::notify); link is null
    // A peer opens `incoming`, which is not open here: if it is one of ours, open() it too, so that
    // the peer can deliver what it has sent and leave. Repeated while the peer asks. Link is null.
    kIncoming,
  };
  Kind kind = Kind::kFrame;
  Link* link = nullptr;
  uint32_t token = 0;
  std::span<const std::byte> frame;
  LinkId incoming;
};

// Allocates memory that the transport can send from and receive into without extra cost, and
// registers memory of others. Transports that need no registration make plain cache-line-aligned
// allocations, and do nothing for the memory of others.
class MemoryDomain {
 public:
  // Smaller memory is not worth announcing: copying it costs less, registered or not.
  static constexpr size_t kLeastAnnouncedBytes = size_t{16} << 10;
  virtual ~MemoryDomain() = default;
  virtual Result<LocalSlice> allocate(size_t bytes) = 0;
  virtual void free(LocalSlice slab) = 0;
  // Slices of this memory may be lent with the returned registration until withdraw(), before which
  // all of them must have been given back. `writable`: links may expose them, too.
  virtual RegistrationId announce(std::span<std::byte> /*memory*/, bool /*writable*/) {
    return kUnregistered;
  }
  virtual void withdraw(RegistrationId /*announced*/) {}
};

struct TransportStats {
  uint64_t bytes_sent = 0;  // on the wire, headers included
  uint64_t bytes_received = 0;
  uint64_t packets_sent = 0;
  uint64_t packets_received = 0;
  uint64_t packets_retransmitted = 0;
  uint64_t packets_marked = 0;           // by a queue on the way, as far as peers reported
  uint64_t packets_dropped_invalid = 0;  // failed CRC, malformed or unknown connection
  uint64_t shared_bytes_sent = 0;        // through memory of this host; not counted above
  uint64_t shared_bytes_received = 0;
};

struct TransportStat {
  const char* name;
  uint64_t TransportStats::* value;
};

inline constexpr auto kTransportStats = std::to_array<TransportStat>({
    {"bytes_sent", &TransportStats::bytes_sent},
    {"bytes_received", &TransportStats::bytes_received},
    {"packets_sent", &TransportStats::packets_sent},
    {"packets_received", &TransportStats::packets_received},
    {"packets_retransmitted", &TransportStats::packets_retransmitted},
    {"packets_marked", &TransportStats::packets_marked},
    {"packets_dropped_invalid", &TransportStats::packets_dropped_invalid},
    {"shared_bytes_sent", &TransportStats::shared_bytes_sent},
    {"shared_bytes_received", &TransportStats::shared_bytes_received},
});
static_assert(sizeof(TransportStats) == kTransportStats.size() * sizeof(uint64_t));

inline TransportStats operator+(TransportStats sum, const TransportStats& other) {
  for (const TransportStat& stat : kTransportStats) sum.*stat.value += other.*stat.value;
  return sum;
}

class Transport {
 public:
  virtual ~Transport() = default;

  virtual TransportLimits limits() const = 0;  // of a link to any peer
  // Of links between these peers and us. Their ends get the same if they ask for the same
  // processes.
  virtual TransportLimits limits_towards(std::span<const Address> /*peers*/) const {
    return limits();
  }
  virtual Address address() const = 0;
  virtual MemoryDomain& memory() = 0;
  virtual TransportStats stats() const = 0;
  // Starts the link. Both ends open it, in any order and at any time. Never blocks: frames may be
  // queued at once, and an unreachable peer shows as Down (kTimeout after `connect_timeout`;
  // kNoContact or kPeerLost if its process does not answer or the network says so). The transport
  // owns the link until close() returns.
  virtual Result<Link*> open(const LinkId& id, const Address& peer, Duration connect_timeout,
                             Instant now) = 0;
  // Best effort, unordered, without a link: at most limits().max_frame_bytes and kMaxNoticeBytes.
  // It tells ranks to which there is no link that the group has failed.
  static constexpr size_t kMaxNoticeBytes = 512;
  virtual void notify(const Address& peer, std::span<const std::byte> notice) = 0;
  // Moves packets and timers, then reports up to `events.size()` events; fewer mean that there are
  // no more now.
  virtual size_t poll(Instant now, std::span<Event> events) = 0;
  // Sends what links were given since the last poll() and what peers are waiting for, as far as it
  // may be sent now. For a caller that may not poll() again soon. What is not urgent may stay.
  virtual void transmit(Instant now) = 0;
  // True while a closed link still has frames to deliver to a live peer.
  virtual bool lingering() const = 0;
  // When poll() must be called next even if the wait handle stays quiet; kNever if never.
  virtual Instant next_deadline() const = 0;
  virtual WaitHandle wait_handle() = 0;
  // Call before sleeping on the handle. False: something may have arrived already; poll() first.
  virtual bool arm() { return true; }
};

}  // namespace rocecoll
