// SPDX-License-Identifier: Apache-2.0
// L1.5: reliability without I/O. One Connection is one end of one link. It owns no socket, no
// thread and no clock: datagrams, timers and commands go in, datagrams and events come out.
// docs/protocol.md describes every byte it reads and writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "base/time.h"
#include "transport/datagram/reliability/path.h"
#include "transport/port.h"
#include "transport/transport.h"

namespace rocecoll {

struct ConnectionOptions {
  // Towards this peer, from DatagramPort::peer_limit; later the owner tells Path::mtu.
  size_t max_datagram_bytes = 1452;
  // Every usable path carries this much; how much more is found out (PathMtu). 0:
  // max_datagram_bytes.
  size_t min_datagram_bytes = 0;
  // Frames that fit go whole, others in pieces that do: as DatagramPort says, or 0 for
  // min_datagram_bytes.
  size_t guaranteed_datagram_bytes = 0;
  Duration max_ack_delay = std::chrono::milliseconds(1);
  Duration min_probe_timeout = std::chrono::microseconds(250);
  Duration max_probe_timeout = std::chrono::milliseconds(50);  // back-off's cap, also in a blackout
  Duration connect_timeout = std::chrono::seconds(30);
  Duration heartbeat_interval = std::chrono::milliseconds(500);  // silence before a ping
  Duration peer_timeout = std::chrono::seconds(10);              // silence before kPeerLost
  // Lingering after close() for the acknowledgement of CLOSE alone. Frames that were accepted
  // before, and a CLOSE with an error, linger until nothing has been acknowledged for peer_timeout.
  Duration close_timeout = std::chrono::seconds(1);
  size_t frame_queue_bytes = 256 * 1024;  // bound of frames not yet acknowledged
  uint32_t max_pending_writes = 256;
  // Of paths that cross a network.
  CongestionControl congestion = CongestionControl::kModel;
  // Of packets, frames, writes, regions and marks, at both ends: the protocol says 0. Tests begin
  // where a long life would lead.
  uint64_t first_number = 0;
};

// What frames lend from that were put together from several datagrams, or came too early.
using LentFrames = std::vector<std::vector<std::byte>>;

class Connection {
 public:
  // Of the most urgent of what poll_transmit() may have to send.
  enum class Urgency : uint8_t {
    kMayJoin,  // nothing, or what may as well go with the next content
    kAwaited,  // an answer that the peer waits for, or what opens the connection
    kContent,
  };

  // Datagrams are no larger than a part of the peer's receive window, so that losing one costs
  // little of it and its acknowledgement comes while others are on their way. This size they may
  // have in any window.
  static constexpr size_t kModestDatagramBytes = 8192;
  // Of a frame, however many datagrams it takes.
  static constexpr size_t kMaxFrameBytes = UINT16_MAX;
  // `path` is shared by all connections to the same peer process and outlives them.
  // `local_id` is random, not zero and unique in the process.
  Connection(const ConnectionOptions& options, const LinkId& link, uint64_t local_id, Path& path,
             Instant now);
  ~Connection();

  // -- getters
  uint64_t local_id() const;
  const LinkId& link() const;
  bool established() const;  // the peer's connection id is known
  bool down() const;         // for good; status() says why
  const Status& status() const;
  LinkContact contact() const;
  Urgency urgency() const;
  bool idle() const;                       // nothing unacknowledged, nothing to send
  bool finished() const;                   // closed, and has nothing more to say: may be destroyed
  bool lingering(Instant now) const;       // closed, and worth a wait of a process that ends
  uint64_t retransmitted_packets() const;  // packets declared lost, their content sent again
  uint64_t marked_packets() const;         // that it sent, as far as the peer said
  uint64_t packets_invalid() const;        // CRC right, yet malformed: dropped whole

  // -- events in
  // A datagram whose packet header named this connection (or, for INIT, this link), CRC already
  // verified by the demultiplexer (packet_wire.h), which this host got at `arrived_at`, `marked` as
  // in RxDatagram. Frame events it causes lend from `bytes`, so `bytes` must stay until
  // poll_event() returned false and its frames are done with.
  void on_datagram(Instant now, Instant arrived_at, std::span<const std::byte> bytes,
                   bool marked = false);
  void on_timeout(Instant now);  // call when now >= next_deadline()
  // A refused port starts fast probing, death is proven by silence; other obstacles pass, and are
  // told should the peer timeout pass first.
  void on_unreachable_hint(Instant now, Obstacle obstacle);
  // This process did not run for so long, which ends now: no timeout counts it. Path::on_pause()
  // is the owner's to call, once for all connections.
  void on_pause(Duration length);
  // The peer answered an INIT with NOT_OPEN: its process lives and may yet open its end.
  void on_not_open(Instant now);
  // Another process than the peer answered an INIT: it has the peer's address.
  void on_replaced(Instant now);
  // The peer answered with RESET: it knows no such connection (it restarted, or has long closed).
  void on_reset(Instant now);

  // A process at the peer's address has opened another connection, and may be a new one: asks it
  // about this one, unless it showed lately that it knows it. True if there is something to send.
  bool confirm(Instant now);

  // -- commands: as in Link
  bool send_frame(const FrameBytes& frame);
  uint64_t unsent_frames() const;  // or pieces of frames
  bool write(const RemoteSlice& to, LocalSlice from, uint32_t token);
  RemoteSlice expose(LocalSlice into, uint32_t token);
  void unexpose(const RemoteSlice& slice);
  // Drops all lent memory at once. Afterwards only the closing handshake goes on, until finished().
  void close(Instant now, const Status& why);
  size_t largest_datagram() const;  // that poll_transmit() may build as things are
  // How many bytes in flight towards us the peer may have; advertised in acknowledgements.
  void set_receive_window(uint64_t bytes);

  // -- effects out
  // Builds the next datagram that may be sent now. The header (all but the DATA payload) is written
  // into `space` (at least the largest datagram); the payload lends from write()'s source. False:
  // nothing may be sent now. `out.to` is left alone. A datagram the port did not accept is lost as
  // far as this knows.
  bool poll_transmit(Instant now, std::span<std::byte> space, TxDatagram& out);
  // kFrame, kWritten, kLanded, kDown; `event.link` is left alone. A frame lends from its datagram,
  // or from what is added to `lent`.
  bool poll_event(Event& event, LentFrames& lent);
  Instant next_deadline() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rocecoll
