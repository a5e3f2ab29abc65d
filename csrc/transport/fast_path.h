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

class SwitchingLink;

// Each link numbers its writes and its exposed slices. A slice's number is the upper half of
// RemoteSlice::key; the rest of the key, and the base, belong to the path. A slice with both of
// these 0 is on the control path.
inline uint32_t ExposedNumber(const RemoteSlice& slice) {
  return static_cast<uint32_t>(slice.key >> 32);
}
inline bool OnControlPath(const RemoteSlice& slice) {
  return slice.base == 0 && static_cast<uint32_t>(slice.key) == 0;
}

// The fast path of one link. A *generation* is one life of it: prepare(), connect(), probe(),
// start(), then fail(), and destroy() once it is drained(). Messages are pushed to it, frames and
// parts of writes, in order on each of a few streams. They stay here until the peer is known to
// have them, even beyond the end of a generation: in the next one, what the peer has not received
// is sent again.
class FastPath {
 public:
  static constexpr uint32_t kMaxStreams = 8;
  using Counts = std::array<uint64_t, kMaxStreams>;
  // Where the peer finds our ends, one for each stream; without addresses there are none.
  struct Ends {
    uint16_t credits = 0;            // how many messages of a stream we have room for
    std::vector<Address> addresses;  // an empty one: that stream carries nothing this time
    // Ports that the streams are spread over: stream i has its end at port i % ports.
    uint8_t ports = 1;
  };
  virtual ~FastPath() = default;

  // -- a generation
  // Makes new ends. Not ok: there are none afterwards.
  virtual Status prepare() = 0;
  virtual Ends ends() const = 0;
  // To the peer's ends of this generation. The first call settles the number of streams: the
  // smaller of both ends'. It may take seconds until connected(); kFailed reports a failure before
  // that.
  virtual Status connect(const Ends& peer) = 0;
  virtual bool connected() const = 0;
  // Sends empty messages; proved() once all connected streams have carried theirs to the peer.
  virtual Status probe() = 0;
  virtual bool proved() const = 0;
  // From now on pump() sends.
  virtual void start() = 0;
  // False: some streams do not carry now, but might in another generation.
  virtual bool complete() const { return true; }
  // Ends the generation; drained() once neither side's traffic touches any memory. destroy() makes
  // sure of that, at any time.
  virtual void fail() = 0;
  virtual bool failed() const = 0;
  virtual bool drained() const = 0;
  virtual void destroy() = 0;
  // Hands the link over to the control path: destroys, gives back what was lent, and returns the
  // frames that the peer does not have, oldest first. Both ends start afresh afterwards: messages
  // are numbered from the beginning.
  virtual std::vector<WireBytes> give_up() = 0;
  // For people. The link sets `in_use`.
  virtual PathStats stats() const = 0;
  // For people: what carries it, once started.
  virtual std::string carrier() const = 0;

  // -- messages
  // How many have been received, by stream.
  virtual Counts received() const = 0;
  // The peer has received this many of ours. Between generations. False: that is impossible.
  virtual bool acknowledge(const Counts& received) = 0;
  // How many have been pushed, to all streams. Frames go over one at a time.
  virtual uint64_t pushed() const = 0;
  // How many of these frames are only in this process's memory, and would be lost with it.
  virtual uint64_t unsent() const = 0;
  // True once the peer has all of them. request_acknowledgement() makes that known soon.
  virtual bool empty() const = 0;
  virtual void request_acknowledgement() = 0;
  // Shows the peer (as kHeartbeat) that this process is alive. For devices that leave the host.
  virtual void send_heartbeat() {}
  // False: no room now.
  virtual bool push_frame(const FrameBytes& frame) = 0;
  // `from` is lent until take_written() has the number, or forget_lent() or give_up().
  virtual void push_write(uint32_t number, const RemoteSlice& to, LocalSlice from) = 0;
  // Sends what can be sent now. Not ok if the path cannot go on.
  virtual Status pump() = 0;
  // Writes that the peer has as a whole.
  virtual std::vector<uint32_t> take_written() = 0;
  // Lets the peer write `into`, until kLanded, take_back() or forget_lent().
  virtual Result<RemoteSlice> expose(uint32_t number, LocalSlice into) = 0;
  // False if part of it has been written.
  virtual bool take_back(uint32_t number) = 0;
  // Drops all writes and exposed slices. After destroy().
  virtual void forget_lent() = 0;

  SwitchingLink* link = nullptr;  // whose path it is; the path only keeps it
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
    kFewerEnds,  // some are lost, `text` says why; the others can carry in another generation
    kMoreEnds,   // the path could have more of them in another generation
  };
  Kind kind = Kind::kProgress;
  FastPath* path = nullptr;
  uint32_t number = 0;
  std::span<const std::byte> frame;
  FastLease lease;
  const char* text = "";  // lent until the event has been dealt with
};

// What the fast paths of one process share.
class FastDevice {
 public:
  virtual ~FastDevice() = default;

  // For people.
  virtual const std::string& description() const = 0;
  // Null: any memory will do, including that of the control transport.
  virtual MemoryDomain* memory() = 0;
  virtual const TransportStats& stats() const = 0;
  virtual std::unique_ptr<FastPath> make_path() = 0;
  // The next thing that has happened. False at the end of a batch, or when all is quiet.
  virtual bool poll(FastEvent& event) = 0;
  // Returns the path to pump, because it may have to tell its peer; null if it is gone.
  virtual FastPath* release(const FastLease& lease) = 0;
  // True if its network may work while that of the control path does not.
  virtual bool leaves_host() const { return false; }
  virtual WaitHandle wait_handle() = 0;
  // Call before sleeping on the handle. False: something may wait already, poll() first.
  virtual bool arm() = 0;
  // Not ok while no path can work, with the reason.
  virtual Status health(Instant now) = 0;
};

}  // namespace rocecoll
