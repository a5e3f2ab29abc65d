// SPDX-License-Identifier: Apache-2.0
// A fast path: a way to a peer that is faster than the transport that reaches everybody, such as
// queue pairs or the memory of one host. It may be missing, fail and come back. SwitchingTransport
// (transport/fast_paths/switching) agrees with the peer, over its control transport, when to use it
// and what has to be sent again. Used by one thread at a time; nothing waits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "transport/address.h"
#include "transport/frame_bytes.h"
#include "transport/transport.h"
#include "transport/wait_handle.h"

namespace rocecoll {

using WireBytes = std::vector<std::byte>;

// Each link numbers its writes and its exposed slices. A slice's number is the upper half of
// RemoteSlice::key; the rest of the key, and the base, belong to the path. A slice with both of
// these 0 is on the control path.
inline uint32_t ExposedNumber(const RemoteSlice& slice) {
  return static_cast<uint32_t>(slice.key >> 32);
}
inline bool OnControlPath(const RemoteSlice& slice) {
  return slice.base == 0 && static_cast<uint32_t>(slice.key) == 0;
}

// The life of a path. A *generation* is one of them: prepare(), connect(), probe(), start(), then
// fail(), and, once it is drained(), destroy().
class PathLife {
 public:
  static constexpr uint32_t kMaxStreams = 8;
  // Where the peer finds our ends, one for each stream; without any there are none.
  struct Ends {
    uint16_t credits = 0;            // messages of a stream that we have room for; the path's own
    std::vector<Address> addresses;  // an empty one: the stream carries nothing this time
    // Ports that the streams are spread over: stream i has its end at port i % ports.
    uint8_t ports = 1;
  };
  virtual ~PathLife() = default;

  // Makes new ends. Not ok: there are none afterwards.
  virtual Status prepare() = 0;
  virtual Ends ends() const = 0;
  // To the peer's ends of this generation. The first call settles the smaller number of streams. It
  // may take seconds until connected(); kFailed reports what goes wrong by then.
  virtual Status connect(const Ends& peer) = 0;
  virtual bool connected() const = 0;
  // Sends messages without content; proved() once all connected streams have carried theirs to the
  // peer.
  virtual Status probe() = 0;
  virtual bool proved() const = 0;
  // From now on pump() sends.
  virtual void start() = 0;
  // False: some of the streams do not carry, but might in another generation.
  virtual bool complete() const { return true; }
  // Ends the generation; drained() once neither side's traffic touches any memory. destroy() makes
  // sure of that, at any time.
  virtual void fail() = 0;
  virtual bool failed() const = 0;
  virtual bool drained() const = 0;
  virtual void destroy() = 0;
};

// What a path carries: messages, which are frames and parts of writes, in order on each of a few
// streams. They stay here until the peer is known to have them, beyond the end of a generation,
// too: in the next one what the peer has not received goes out again.
class PathTraffic {
 public:
  using Counts = std::array<uint64_t, PathLife::kMaxStreams>;
  virtual ~PathTraffic() = default;

  // How many messages have come, by stream.
  virtual Counts received() const = 0;
  // The peer has received this many of ours. Between generations. False: no peer can have.
  virtual bool acknowledge(const Counts& received) = 0;
  // How many messages have been pushed, to all streams. Each frame is one.
  virtual uint64_t pushed() const = 0;
  // How many of the frames are in memory of this process alone, and would end with it.
  virtual uint64_t unsent() const = 0;
  // True once the peer has all messages; request_acknowledgement() lets that be known soon.
  virtual bool empty() const = 0;
  virtual void request_acknowledgement() = 0;
  // Shows the peer that this process lives, by kHeartbeat there. Of devices that leave the host.
  virtual void send_heartbeat() {}
  // False: no room now.
  virtual bool push_frame(const FrameBytes& frame) = 0;
  // `from` is lent until take_written() has the number, or forget_lent() or give_up().
  virtual void push_write(uint32_t number, const RemoteSlice& to, LocalSlice from) = 0;
  // Sends what can be sent. Not ok if the path cannot go on.
  virtual Status pump() = 0;
  // Writes that the peer has as a whole.
  virtual std::vector<uint32_t> take_written() = 0;
  // Lets the peer write `into`, until kLanded, take_back() or forget_lent().
  virtual Result<RemoteSlice> expose(uint32_t number, LocalSlice into) = 0;
  // False if part of it has been written.
  virtual bool take_back(uint32_t number) = 0;
  // Drops all writes and exposed slices. The messages of the writes keep their numbers, but
  // take_written() does not name them any more. After destroy().
  virtual void forget_lent() = 0;
  // The control path carries the link now: destroys the path's ends, gives back what was lent, and
  // returns the frames that the peer does not have, oldest first. The path is as new afterwards, at
  // both ends: its messages are numbered from the beginning.
  virtual std::vector<WireBytes> give_up() = 0;
};

struct FastEvent;

// The link of a path.
class PathOwner {
 public:
  virtual void on_path(const FastEvent& event) = 0;
  // The path may be able to send something now: pump() it.
  virtual void mark_dirty() = 0;

 protected:
  ~PathOwner() = default;
};

// The fast path of one link to its peer.
class FastPath : public PathLife, public PathTraffic {
 public:
  // For people; `in_use` is the link's to say.
  virtual PathStats stats() const = 0;
  // For people: what it is, once started.
  virtual std::string carrier() const = 0;

  PathOwner* owner = nullptr;  // the path only keeps it, for the device and for SwitchingTransport
};

inline uint64_t Total(const FastPath::Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

// A frame's place in the receive queue, until its event is over.
struct FastLease {
  uint64_t id = 0;
  uint64_t stream = 0;
};

struct FastEvent {
  enum class Kind : uint8_t {
    kProgress,   // look again: connected(), proved(), drained(), take_written()
    kFrame,      // `frame` is lent until release(lease)
    kLanded,     // an exposed slice, `number`, has been written completely
    kHeartbeat,  // the peer's process lives
    kStray,      // something was written into a slice that is not exposed
    kFailed,     // `text` says why
    kFewerEnds,  // some are lost, as `text` says; the others carry in another generation
    kMoreEnds,   // the path could have more of them in another generation
  };
  Kind kind = Kind::kProgress;
  FastPath* path = nullptr;
  uint32_t number = 0;
  std::span<const std::byte> frame;
  FastLease lease;
  const char* text = "";  // lent until the event has been dealt with
};

// What the paths of one process share.
class FastDevice {
 public:
  virtual ~FastDevice() = default;

  // For people.
  virtual const std::string& description() const = 0;
  // Null: any memory will do, so that of the control transport is as good.
  virtual MemoryDomain* memory() = 0;
  virtual const TransportStats& stats() const = 0;
  virtual std::unique_ptr<FastPath> make_path() = 0;
  // The next thing that has happened. False at the end of a batch, or when all is quiet.
  virtual bool poll(FastEvent& event) = 0;
  // Returns the path that may have to tell its peer so, to be pumped; null if it is gone.
  virtual FastPath* release(const FastLease& lease) = 0;
  // Over a network that may live while that of the control path does not.
  virtual bool leaves_host() const { return false; }
  virtual WaitHandle wait_handle() = 0;
  // Call before sleeping on the handle. False: something may wait already, poll() first.
  virtual bool arm() = 0;
  // Not ok while no path can work; says why.
  virtual Status health(Instant now) = 0;
};

}  // namespace rocecoll
