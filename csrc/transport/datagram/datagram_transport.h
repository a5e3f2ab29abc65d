// SPDX-License-Identifier: Apache-2.0
// Links over any datagram port: demultiplexes packets to connections, runs their timers, shares
// paths and the receive buffer among them, and moves batches in and out of the port.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/pause_detector.h"
#include "transport/datagram/answer_limiter.h"
#include "transport/datagram/datagram_endpoint.h"
#include "transport/datagram/deadline_heap.h"
#include "transport/datagram/endpoint_table.h"
#include "transport/datagram/notice_queue.h"
#include "transport/datagram/receive_shares.h"
#include "transport/datagram/reliability/connection.h"
#include "transport/datagram/send_retry.h"
#include "transport/datagram/transmit_batch.h"
#include "transport/plain_memory.h"
#include "transport/port.h"
#include "transport/transport.h"

namespace rocecoll {

class DatagramTransport final : public Transport {
 public:
  static constexpr int64_t kResetBurst = 32;  // RESETs sent at once; then one per millisecond
  // Uses `options` except for the sizes of datagrams, which each peer's route decides.
  // `roce_peer_timeout`, if given, replaces the timeout of peers that may also be reached over
  // RoCE.
  DatagramTransport(std::unique_ptr<DatagramPort> port, const ConnectionOptions& options,
                    std::optional<Duration> roce_peer_timeout = std::nullopt);
  ~DatagramTransport() override;
  DatagramTransport(const DatagramTransport&) = delete;
  DatagramTransport& operator=(const DatagramTransport&) = delete;

  TransportLimits limits() const override { return limits_towards({}); }
  TransportLimits limits_towards(std::span<const Address> peers) const override;
  Address address() const override { return port_->address().of_process(process_); }
  MemoryDomain& memory() override { return memory_; }
  TransportStats stats() const override;
  Result<Link*> open(const LinkId& id, const Address& peer, Duration connect_timeout,
                     Instant now) override;
  void notify(const Address& peer, std::span<const std::byte> notice) override;
  size_t poll(Instant now, std::span<Event> events) override;
  void transmit(Instant now) override;
  bool lingering() const override;
  Instant next_deadline() const override;
  WaitHandle wait_handle() override { return port_->wait_handle(); }
  bool arm() override { return port_->arm(); }

 private:
  friend class DatagramLink;
  using Urgency = Connection::Urgency;
  static constexpr size_t kReceiveBatch = 128;
  // No process dies and is restarted in less time, and many groups may be opened at once.
  static constexpr Duration kConfirmInterval = std::chrono::seconds(1);

  // -- for links
  void wants_to_transmit(Endpoint& endpoint);
  void close_link(Endpoint& endpoint, const Status& why);
  std::string_view carrier(const Endpoint& endpoint) const {
    return port_->carrier(endpoint.path.peer);
  }

  // -- datagram_receive.cc
  void receive();
  void release_leases();
  void dispatch(const RxDatagram& datagram);
  void on_init(const RxDatagram& datagram);
  void on_not_open(const RxDatagram& datagram, uint64_t connection_id);
  void answer(const Address& to, PacketType type, uint64_t connection_id,
              std::span<const std::byte> body);
  void confirm_others(const Endpoint& opened);
  void on_unknown(const RxDatagram& datagram, uint64_t connection_id);
  void on_notice(const RxDatagram& datagram);
  bool all_events_taken() const {
    return events_.empty() && next_notice_ == notices_.size() && incoming_.empty();
  }
  void feed(Endpoint& endpoint, const RxDatagram& datagram);
  void take_hints();

  // -- datagram_transport.cc
  void tell_time();
  void notice_pause();
  void touch(Endpoint& endpoint);
  void wake_waiting(PeerPath& path);
  void run_timers();
  void keep_timers(Endpoint& endpoint);
  void send_waiting();
  void transmit(Urgency least);
  bool transmit_from(Endpoint& endpoint);
  void update_path(PeerPath& path);
  static void tell_of_loss(PeerPath& path);
  void settle(Endpoint& endpoint);
  void note_finished(Endpoint& endpoint);
  size_t take_events(std::span<Event> events);
  void reap();
  void forget_idle_paths();

  const std::unique_ptr<DatagramPort> port_;
  const ConnectionOptions options_;
  const std::optional<Duration> roce_peer_timeout_;
  const PortLimits port_limits_;
  const uint64_t process_ = EntropyId();
  PlainMemoryDomain memory_;
  TransportStats stats_;  // except for what connections count
  Instant now_{};         // the latest time that a call passed or read
  PauseDetector pauses_;  // between calls of poll(), and within one

  EndpointTable table_;
  DeadlineHeap<Endpoint, &Endpoint::deadline> deadlines_;    // up to date for settled endpoints
  TransmitList transmit_;                                    // may have something to send
  EventList events_;                                         // may have something to report
  ClosingList closing_;                                      // have no link any more
  FinishedList finished_;                                    // of these, with nothing left to send
  std::vector<std::unique_ptr<DatagramLink>> closed_links_;  // until no polled event names them

  NoticeQueue outgoing_notices_;
  TransmitBatch batch_;
  SendRetry retry_;  // for both
  ReceiveShares shares_;
  // Packets that name no known connection come from peers of a predecessor, or from any host.
  AnswerLimiter resets_{kResetBurst, std::chrono::milliseconds(1)};
  // A waiting peer needs only one answer per peer timeout.
  AnswerLimiter not_opens_{kResetBurst, std::chrono::milliseconds(1)};
  // Lent by the port until all their events are taken.
  std::array<RxDatagram, kReceiveBatch> received_;
  LentFrames lent_frames_;  // of the events that were taken
  size_t received_count_ = 0;
  std::vector<std::span<const std::byte>> notices_;  // within received_
  size_t next_notice_ = 0;
  std::vector<LinkId> incoming_;  // links that peers in received_ open, and that are not open here
  bool more_to_receive_ = false;
};

}  // namespace rocecoll
