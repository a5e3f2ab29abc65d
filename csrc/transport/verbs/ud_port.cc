// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/ud_port.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/random.h"

namespace rocecoll {
namespace {

// Every RoCE port on an Ethernet of the usual MTU has this path MTU. It is also the least that
// peers may have.
constexpr size_t kMinMtuBytes = 1024;
// With 4096-byte packets the slots take 4.1 MiB of registered memory for receiving and 1 MiB for
// sending, which is within the 8 MiB that systems usually let a process lock.
constexpr uint32_t kReceiveSlots = 1024;
constexpr uint32_t kSendSlots = 256;
constexpr uint32_t kInlineBytes = 128;  // acknowledgements and small control packets
// Keys with the highest bit set select the queue pair's own key.
constexpr uint32_t kKeyMask = 0x7fffffff;

}  // namespace

Result<std::unique_ptr<DatagramPort>> UdPort::Open(const RdmaOptions& options) {
  const Result<std::vector<PortChoice>> choices = VerbsPort::Choose(options);
  if (!choices.ok()) return choices.status();
  Result<std::unique_ptr<VerbsPort>> port = VerbsPort::Open(options, choices.value().front());
  if (!port.ok()) return port.status();
  const PortChoice& choice = port.value()->choice();
  if (choice.mtu_bytes < kMinMtuBytes) {
    return Status(StatusCode::kUnsupported,
                  ToText(choice) + ": an RDMA MTU of " + std::to_string(choice.mtu_bytes) +
                      " bytes is too small for datagrams, at least " +
                      std::to_string(kMinMtuBytes) +
                      ": raise the MTU of its network interface, or the option");
  }
  std::unique_ptr<UdPort> made(new UdPort(port.take()));
  Status status = made->prepare();
  if (!status.ok()) return status;
  return std::unique_ptr<DatagramPort>(std::move(made));
}

Status UdPort::prepare() {
  const auto device_limit = static_cast<uint32_t>(std::max(port_->attributes().max_qp_wr, 1));
  Result<std::unique_ptr<UdSender>> sender =
      UdSender::Create(*port_, std::min(kSendSlots, device_limit));
  if (!sender.ok()) return sender.status();
  sender_ = sender.take();
  Result<std::unique_ptr<UdReceiver>> receiver =
      UdReceiver::Create(*port_, std::min(kReceiveSlots, device_limit));
  if (!receiver.ok()) return receiver.status();
  receiver_ = receiver.take();
  Result<std::unique_ptr<SlowCalls>> slow_calls = SlowCalls::Start();
  if (!slow_calls.ok()) return slow_calls.status();
  slow_calls_ = slow_calls.take();
  Status status = port_->watch(slow_calls_->wake_descriptor());
  if (status.ok()) status = make_queue_pair();
  if (!status.ok()) return status;

  own_.kind = QueuePairAddress::Kind::kDatagrams;
  own_.mtu_bytes = port_->choice().mtu_bytes;
  own_.number = queue_pair_->qp_num;
  own_.packet_number_or_key = static_cast<uint32_t>(EntropyId()) & kKeyMask;
  own_.gid = port_->choice().gid.gid;
  peers_ = std::make_unique<UdPeers>(*port_, *slow_calls_, own_, kMinMtuBytes);
  status = start();
  if (!status.ok()) return status;
  receiver_->restart(*queue_pair_);
  return port_->health().status();
}

Status UdPort::make_queue_pair() {
  for (const uint32_t inline_bytes : {kInlineBytes, 0u}) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = sender_->completions();
    wanted.recv_cq = receiver_->completions().get();
    wanted.qp_type = IBV_QPT_UD;
    wanted.cap.max_send_wr = static_cast<uint32_t>(sender_->slots());
    wanted.cap.max_recv_wr = static_cast<uint32_t>(receiver_->slots());
    wanted.cap.max_send_sge = 1;
    wanted.cap.max_recv_sge = 1;
    wanted.cap.max_inline_data = inline_bytes;
    queue_pair_.reset(ibv_create_qp(port_->protection_domain(), &wanted));
    max_inline_bytes_ = wanted.cap.max_inline_data;
    if (queue_pair_ != nullptr) return {};
  }
  return port_->error("make a datagram queue pair", errno);
}

Status UdPort::start() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = port_->options().pkey_index;
  attributes.port_num = port_->choice().port;
  attributes.qkey = own_.packet_number_or_key;
  int failed = ibv_modify_qp(queue_pair_.get(), &attributes,
                             IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  attributes.qp_state = IBV_QPS_RTR;
  if (failed == 0) failed = ibv_modify_qp(queue_pair_.get(), &attributes, IBV_QP_STATE);
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = 0;  // datagrams are not numbered
  if (failed == 0) {
    failed = ibv_modify_qp(queue_pair_.get(), &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
  }
  return failed == 0 ? Status() : port_->error("start a datagram queue pair", failed);
}

void UdPort::start_anew_if_failed() {
  if (!sender_->failed() && !receiver_->failed()) return;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  // After this call the device no longer touches any request, and completes none.
  if (const int failed = ibv_modify_qp(queue_pair_.get(), &attributes, IBV_QP_STATE); failed != 0) {
    port_->health().set_broken(port_->error("reset a datagram queue pair", failed).message());
    return;
  }
  sender_->restart();
  const Status status = start();
  if (!status.ok()) port_->health().set_broken(status.message());
  if (status.ok()) receiver_->restart(*queue_pair_);
}

PortLimits UdPort::limits() const {
  PortLimits limits;
  limits.max_datagram_bytes = own_.mtu_bytes;
  limits.min_datagram_bytes = kMinMtuBytes;
  limits.guaranteed_datagram_bytes = kMinMtuBytes;
  limits.max_burst = UdSender::kMaxBurst;
  // Short packets take a whole slot, and the device does not have the leased slots.
  limits.receive_buffer_bytes = receiver_->slots() * own_.mtu_bytes / 2;
  return limits;
}

size_t UdPort::send(std::span<const TxDatagram> batch) {
  start_anew_if_failed();
  return sender_->send(*queue_pair_, max_inline_bytes_, own_.packet_number_or_key, *peers_, batch);
}

bool UdPort::send_to(const Address& address, std::span<const std::byte> datagram) {
  const Result<PeerHandle> peer = add_peer(address);
  if (!peer.ok()) return true;
  const TxDatagram sent{peer.value(), datagram, {}};
  return send({&sent, 1}) == 1;
}

size_t UdPort::receive(std::span<RxDatagram> batch) {
  slow_calls_->finish();
  peers_->drop_replaced(sender_->done(), sender_->posted());
  const size_t filled = receiver_->receive(*queue_pair_, *peers_, batch);
  start_anew_if_failed();
  return filled;
}

void UdPort::release(std::span<const RxDatagram> batch) { receiver_->release(*queue_pair_, batch); }

void UdPort::take_events() {
  port_->take_events();
  peers_->follow_gid();
}

bool UdPort::arm() {
  take_events();
  return receiver_->completions().arm();
}

Status UdPort::health() {
  take_events();
  return port_->health().status();
}

}  // namespace rocecoll
