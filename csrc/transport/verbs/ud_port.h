// SPDX-License-Identifier: Apache-2.0
// Datagrams of a RoCE port: one UD queue pair for all peers. A datagram is one packet of at most
// the path MTU. Its immediate data is the sender's queue key, so that it can be answered.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "transport/port.h"
#include "transport/rdma.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/queue_pair_address.h"
#include "transport/verbs/slow_calls.h"
#include "transport/verbs/ud_peers.h"
#include "transport/verbs/ud_receiver.h"
#include "transport/verbs/ud_sender.h"
#include "transport/verbs/verbs_port.h"

namespace rocecoll {

class UdPort final : public DatagramPort {
 public:
  static Result<std::unique_ptr<DatagramPort>> Open(const RdmaOptions& options);

  PortLimits limits() const override;
  Address address() const override { return ToAddress(own_); }
  Result<PeerHandle> add_peer(const Address& address) override { return peers_->add(address); }
  void remove_peer(PeerHandle peer) override { peers_->remove(peer); }
  void renew_way(PeerHandle peer) override { peers_->renew_way(peer); }
  bool seeks_way(PeerHandle peer) const override { return peers_->seeks_way(peer); }
  size_t peer_limit(PeerHandle peer) const override { return (*peers_)[peer].max_datagram_bytes; }
  bool checks_payload(PeerHandle /*peer*/) const override { return true; }
  size_t send(std::span<const TxDatagram> batch) override;
  // The hardware keeps what it needs to reach an address, so every destination becomes a peer.
  bool send_to(const Address& address, std::span<const std::byte> datagram) override;
  size_t receive(std::span<RxDatagram> batch) override;
  void release(std::span<const RxDatagram> batch) override;
  bool poll_unreachable(UnreachableHint& /*hint*/) override { return false; }
  void flush() override {}  // send() lends nothing after it returns
  WaitHandle wait_handle() override { return port_->wait_handle(); }
  bool arm() override;
  Status health() override;

 private:
  explicit UdPort(std::unique_ptr<VerbsPort> port) : port_(std::move(port)) {}
  Status prepare();
  Status make_queue_pair();
  // Moves the queue pair from reset to ready, so that it can receive and send.
  Status start();
  // Any problem with one datagram, such as a missing route, fails the queue pair for all.
  // Restarting keeps its number; datagrams in flight are lost.
  void start_anew_if_failed();
  void take_events();

  std::unique_ptr<VerbsPort> port_;
  QueuePairAddress own_;
  std::unique_ptr<UdPeers> peers_;
  std::unique_ptr<UdSender> sender_;
  std::unique_ptr<UdReceiver> receiver_;
  QueuePairHandle queue_pair_;             // destroyed before its queues
  std::unique_ptr<SlowCalls> slow_calls_;  // destroyed before what its calls use
  uint32_t max_inline_bytes_ = 0;
};

}  // namespace rocecoll
