// SPDX-License-Identifier: Apache-2.0
// Reliability without I/O. A Connection is one end of one link. It owns no socket, no thread and no
// clock: datagrams, timers and commands go in, datagrams and events come out.
// docs/protocol.md describes every byte that it reads and writes.
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
  // To this peer, from DatagramPort::peer_limit(); the owner reports later changes to Path::mtu.
  size_t max_datagram_bytes = 1452;
  // The size that every usable path carries; PathMtu finds out how much more it carries. 0 means
  // max_datagram_bytes.
  size_t min_datagram_bytes = 0;
  // Frames that fit into this size are sent whole, others in pieces that fit. From DatagramPort; 0
  // means min_datagram_bytes.
  size_t guaranteed_datagram_bytes = 0;
  Duration max_ack_delay = std::chrono::milliseconds(1);
  Duration min_probe_timeout = std::chrono::microseconds(250);
  Duration max_probe_timeout = std::chrono::milliseconds(50);  // the back-off's cap
  Duration connect_timeout = std::chrono::seconds(30);
  Duration heartbeat_interval = std::chrono::milliseconds(500);  // silence before a ping
  Duration peer_timeout = std::chrono::seconds(10);              // silence before kPeerLost
  // How long a closed connection lingers for the acknowledgement of CLOSE alone. For frames
  // accepted before close(), and for a CLOSE with an error, it lingers until nothing has been
  // acknowledged for peer_timeout.
  Duration close_timeout = std::chrono::seconds(1);
  size_t frame_queue_bytes = 256 * 1024;  // bounds the frames that are not yet acknowledged
  uint32_t max_pending_writes = 256;
  // Used on paths that cross a network.
  CongestionControl congestion = CongestionControl::kModel;
  // The first number of packets, frames, writes, regions and marks, at both ends. The protocol says
  // 0; tests begin at numbers that only a long life reaches.
  uint64_t first_number = 0;
};

// The memory of frames that were assembled from several datagrams or came too early.
using LentFrames = std::vector<std::vector<std::byte>>;

class Connection {
 public:
  // How urgent the most urgent thing is that poll_transmit() may have to send.
  enum class Urgency : uint8_t {
    kMayJoin,  // nothing, or something that may wait for the next content
    kAwaited,  // an answer that the peer waits for, or what opens the connection
    kContent,
  };

  // Datagrams are no larger than a fraction of the peer's receive window, so that losing one costs
  // little of the window and its acknowledgement comes while others are on their way. They may
  // always have this size, whatever the window.
  static constexpr size_t kModestDatagramBytes = 8192;
  // The largest frame, however many datagrams it takes.
  static constexpr size_t kMaxFrameBytes = UINT16_MAX;
  // All connections to the same peer process share `path`, which outlives them. `local_id` is
  // random, not zero and unique in the process.
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
  bool finished() const;                   // closed, with nothing left to send: may be destroyed
  bool lingering(Instant now) const;       // closed; a process that ends should wait for it
  uint64_t retransmitted_packets() const;  // packets declared lost, whose content is sent again
  uint64_t marked_packets() const;         // of those that it sent, as far as the peer reported
  uint64_t packets_invalid() const;        // with a correct CRC but malformed: dropped as a whole

  // -- events in
  // For a datagram whose packet header names this connection (or, for INIT, this link) and whose
  // CRC the demultiplexer has verified (packet_wire.h). This host received it at `arrived_at`;
  // `marked` is as in RxDatagram. Frame events that it causes lend from `bytes`, which must stay
  // valid until poll_event() has returned false and its frames have been used.
  void on_datagram(Instant now, Instant arrived_at, std::span<const std::byte> bytes,
                   bool marked = false);
  void on_timeout(Instant now);  // call when now >= next_deadline()
  // A refused port starts fast probing; only silence then proves the peer's death. Other obstacles
  // pass; the error names them if the peer timeout passes first.
  void on_unreachable_hint(Instant now, Obstacle obstacle);
  // This process did not run for `length` until now: no timeout counts that time. The owner also
  // calls Path::on_pause(), once for all connections.
  void on_pause(Duration length);
  // The peer answered an INIT with NOT_OPEN: its process lives and may yet open its end.
  void on_not_open(Instant now);
  // Another process, which now has the peer's address, answered an INIT.
  void on_replaced(Instant now);
  // The peer answered with RESET: it knows no such connection, because it has restarted or closed
  // it long ago.
  void on_reset(Instant now);

  // A process at the peer's address has opened another connection and may be a new process: asks it
  // about this connection, unless it has lately shown that it knows it. True if there is something
  // to send.
  bool confirm(Instant now);

  // -- commands: as in Link
  bool send_frame(const FrameBytes& frame);
  uint64_t unsent_frames() const;  // counts pieces of frames
  bool write(const RemoteSlice& to, LocalSlice from, uint32_t token);
  RemoteSlice expose(LocalSlice into, uint32_t token);
  void unexpose(const RemoteSlice& slice);
  // Gives up all lent memory at once. Afterwards only the closing handshake goes on, until
  // finished().
  void close(Instant now, const Status& why);
  size_t largest_datagram() const;  // that poll_transmit() may build now
  // How many bytes the peer may have in flight to this end; advertised in acknowledgements.
  void set_receive_window(uint64_t bytes);

  // -- effects out
  // Builds the next datagram that may be sent now; false if there is none. The header (everything
  // but the DATA payload) is written into `space` (at least largest_datagram()); the payload lends
  // from the source of write(). Leaves `out.to` alone. A datagram that the port does not accept
  // counts as lost.
  bool poll_transmit(Instant now, std::span<std::byte> space, TxDatagram& out);
  // kFrame, kWritten, kLanded or kDown; leaves `event.link` alone. A frame lends from its datagram,
  // or from memory that is added to `lent`.
  bool poll_event(Event& event, LentFrames& lent);
  Instant next_deadline() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rocecoll
