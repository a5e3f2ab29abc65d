// SPDX-License-Identifier: Apache-2.0
// The parts of a Connection and how they work together: connection.cc has the commands and timers,
// connection_receive.cc processes datagrams, connection_transmit.cc builds them.
#pragma once

#include <string>
#include <vector>

#include "base/text.h"
#include "transport/datagram/reliability/ack_tracker.h"
#include "transport/datagram/reliability/connection.h"
#include "transport/datagram/reliability/connection_event.h"
#include "transport/datagram/reliability/frame_wire.h"
#include "transport/datagram/reliability/handshake.h"
#include "transport/datagram/reliability/liveness.h"
#include "transport/datagram/reliability/loss_detector.h"
#include "transport/datagram/reliability/pending_writes.h"
#include "transport/datagram/reliability/probe_timeout.h"
#include "transport/datagram/reliability/reassembly.h"
#include "transport/datagram/reliability/regions.h"
#include "transport/datagram/reliability/send_queue.h"
#include "transport/datagram/reliability/sent_packets.h"

namespace rocecoll {

// What remains to be done after the owner's close(). `closed` is never reset.
struct Closing {
  bool closed = false;
  bool close_due = false;  // CLOSE has to be sent, again if it was lost
  bool close_acknowledged = false;
  Status why;
  uint64_t final_sequence = 0;
  Instant progress_at{};  // of close(), or of the last acknowledgement after it

  std::string_view message() const { return CutText(why.message(), kMaxCloseMessageBytes); }
};

// The content of the peer's CLOSE. It takes effect once all frames before it have been passed on.
struct PeerClose {
  bool received = false;
  Status status;
  uint64_t final_sequence = 0;
};

// Used until the owner or the peer sets another one.
constexpr uint64_t kInitialReceiveWindow = 512 * 1024;

struct Connection::Impl {
  Impl(const ConnectionOptions& options, const LinkId& link, uint64_t local_id, Path& path,
       Instant now);
  ~Impl();

  // -- connection.cc
  void on_timeout(Instant now);
  void on_unreachable_hint(Instant now, Obstacle obstacle);
  Status silent_status() const;
  Status refused_status() const;
  void on_reset();
  void on_replaced();
  void close(Instant now, const Status& why);
  void set_down(Status why);
  void lose_contact(Status why);
  void release_lent_memory();
  void finish();
  void fire_probe(Instant now);
  // `seen_at`: when the evidence arrived. A process that wakes up late finds several
  // acknowledgements, each of which may name packets that the previous one has left out.
  void declare_losses(Instant now, Instant seen_at);
  void on_lost(Instant now, const SentPacket& packet);
  void forget_in_flight();
  void maybe_finish_closing();
  Instant linger_until() const;
  bool lingering(Instant now) const;
  void forget_settled(Instant now);
  bool lost_contact() const { return down && !peer_close.received; }
  bool timers_run() const { return !finished && !down; }
  Instant next_deadline() const;
  Instant probe_deadline() const;
  bool idle() const;
  bool has_content() const;
  Urgency urgency() const;

  // -- connection_receive.cc
  void on_datagram(Instant now, Instant arrived_at, std::span<const std::byte> bytes, bool marked);
  void on_init(Instant now, Instant arrived_at, const PacketHeader& header,
               std::span<const std::byte> bytes);
  void on_packet(Instant now, Instant arrived_at, const PacketHeader& header,
                 std::span<const std::byte> bytes, bool marked);
  bool is_valid_body(uint64_t number, const PacketBody& read) const;
  void on_ack(Instant now, Instant arrived_at, uint64_t number, const AckFrame& ack);
  void on_acknowledged(Instant now, uint64_t number, const SentPacket& packet);
  void on_content(const PacketBody& body);
  void on_peer_close(const CloseField& close);
  void complete_peer_close();
  void heard(Instant now);

  // -- connection_transmit.cc
  bool poll_transmit(Instant now, std::span<std::byte> space, TxDatagram& out);
  void build_init(Instant now, std::span<std::byte> space, TxDatagram& out);
  void build_packet(Instant now, bool with_content, std::span<std::byte> space, TxDatagram& out);
  void write_ack(Instant now, size_t reserve, ByteWriter& body);
  size_t content_reserve() const;
  bool asks_as_last(Instant now) const;
  std::span<const std::byte> write_frames(Instant now, bool& ping, ByteWriter& body,
                                          SentPacket& packet);
  void pad_to_run(const SentPacket& packet, size_t header, ByteWriter& body);
  void write_close(ByteWriter& body, SentPacket& packet);
  std::span<const std::byte> write_data(bool ping, ByteWriter& body, SentPacket& packet);
  bool mtu_probe_due() const;
  void build_mtu_probe(Instant now, std::span<std::byte> space, TxDatagram& out);
  bool window_allows() const;
  bool may_send_content(Instant now) const;
  bool window_nearly_used() const;
  bool close_sendable() const { return closing.close_due && !send_queue.has_pending(); }
  size_t datagram_limit() const;
  size_t largest_datagram() const { return std::max(path.mtu.limit(), guaranteed_datagram); }

  const ConnectionOptions options;
  const size_t guaranteed_datagram;  // the limit of a piece that needs more than the path's size
  const LinkId link;
  const uint64_t local_id;
  Path& path;

  Handshake handshake;
  Liveness liveness;
  AckTracker ack_tracker;
  SentPackets sent;
  LossDetector loss_detector;
  ProbeTimeout probe_timeout;
  SendQueue send_queue;
  uint64_t unsent_when_down = 0;
  PendingWrites writes;
  Reassembly reassembly;
  Regions regions;
  ConnectionEvents events;
  PacketBody body;  // of the packet being read
  AckFrame ack;     // of the packet being built

  Instant connect_deadline;
  bool down = false;
  bool finished = false;
  Status status;
  Closing closing;
  PeerClose peer_close;

  Instant shown_at{};  // of the peer's latest packet, which shows that it knows this connection
  bool ping_due = false;
  uint64_t bytes_since_ping = 0;
  size_t run_bytes = 0;      // of the previous packet, if its last frame continues; else 0
  bool settled_due = false;  // there are holes that the peer may forget
  uint32_t probes_due = 0;   // packets that may exceed the windows
  bool small_probe = false;  // the last of these has at most the base size
  uint64_t receive_window = kInitialReceiveWindow;
  uint64_t peer_window = kInitialReceiveWindow;
  uint32_t peer_marked;             // of our packets, by the peer's count
  uint64_t peer_window_number = 0;  // the packet that reported the window and the marks
  bool mtu_probe_in_flight = false;

  uint64_t lost_packets = 0;
  uint64_t marked_packets = 0;
  uint64_t invalid_packets = 0;
};

}  // namespace rocecoll
