// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/queue_pair.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/random.h"
#include "transport/verbs/receive_list.h"
#include "transport/verbs/verbs_error.h"

namespace rocecoll {
namespace {

constexpr size_t kListRequests = 32;  // handed to the device in one call
constexpr uint32_t kPacketNumberMask = 0xffffff;
// How often a peer without a receive request is asked again, 2.56 ms later each time (code 16 of
// the InfiniBand specification, table 45). The value 7 means "for ever".
constexpr uint8_t kReceiverNotReadyRetries = 6;
constexpr uint8_t kReceiverNotReadyDelay = 16;

ibv_send_wr ToRequest(const SendRequest& request, ibv_sge& slice) {
  slice.addr = reinterpret_cast<uintptr_t>(request.payload.data());
  slice.length = static_cast<uint32_t>(request.payload.size());
  slice.lkey = request.local_key;
  ibv_send_wr result{};
  result.wr_id = request.id;
  result.sg_list = &slice;
  result.num_sge = request.payload.empty() ? 0 : 1;
  if (request.signaled) result.send_flags |= IBV_SEND_SIGNALED;
  if (request.inlined) result.send_flags |= IBV_SEND_INLINE;
  switch (request.kind) {
    case SendRequest::Kind::kSend:
      result.opcode = IBV_WR_SEND;
      return result;
    case SendRequest::Kind::kWrite:
      result.opcode = IBV_WR_RDMA_WRITE;
      break;
    case SendRequest::Kind::kWriteWithImmediate:
      result.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
      result.imm_data = htonl(request.immediate);
      break;
  }
  result.wr.rdma.remote_addr = request.remote_address;
  result.wr.rdma.rkey = request.remote_key;
  return result;
}

}  // namespace

Result<std::unique_ptr<VerbsQueuePair>> VerbsQueuePair::Create(VerbsPort& port,
                                                               const Queues& queues,
                                                               CompletionReserve& reserve) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = queues.completions->get();
  wanted.srq = queues.receives;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = queues.max_sends;
  wanted.cap.max_send_sge = 1;
  wanted.cap.max_recv_wr = queues.max_receives;
  wanted.cap.max_recv_sge = queues.max_receives > 0 ? 1 : 0;
  wanted.cap.max_inline_data = queues.max_inline_bytes;
  QueuePairHandle handle(ibv_create_qp(port.protection_domain(), &wanted));
  if (handle == nullptr) return port.error("make a queue pair", errno);
  std::unique_ptr<VerbsQueuePair> made(
      new VerbsQueuePair(port, queues, reserve, std::move(handle), wanted.cap));
  Status status = made->initialize();
  if (!status.ok()) return status;
  return made;
}

VerbsQueuePair::VerbsQueuePair(VerbsPort& port, const Queues& queues, CompletionReserve& reserve,
                               QueuePairHandle queue_pair, const ibv_qp_cap& granted)
    : port_(port),
      slow_calls_(*queues.slow_calls),
      connects_(*queues.connects),
      completions_(*queues.completions),
      reserve_(reserve),
      queue_pair_(std::move(queue_pair)),
      max_inline_bytes_(granted.max_inline_data),
      max_sends_(granted.max_send_wr) {
  own_.kind = QueuePairAddress::Kind::kConnected;
  own_.mtu_bytes = port.choice().mtu_bytes;
  own_.number = queue_pair_->qp_num;
  // Random, so that packets of an earlier connection with the same number are not accepted.
  own_.packet_number_or_key = static_cast<uint32_t>(EntropyId()) & kPacketNumberMask;
  own_.gid = port.choice().gid.gid;
  if (port.options().extensions) own_.extensions = QueryExtensions(*queue_pair_);
  ++reserve_.living;
}

VerbsQueuePair::~VerbsQueuePair() {
  std::erase_if(connects_,
                [this](const WorkCompletion& connect) { return connect.queue_pair == number(); });
  if (stop_connecting()) {
    Destroy(std::move(queue_pair_), completions_, reserve_);
    return;
  }
  // No peer knows that this queue pair will be connected, so nothing arrives until it is destroyed.
  connecting_->owner = nullptr;
  connecting_->orphan = std::move(queue_pair_);
}

void VerbsQueuePair::Destroy(QueuePairHandle queue_pair, CompletionQueue& completions,
                             CompletionReserve& reserve) {
  // Some devices (mlx5) remove a queue pair's completions from the queue when it is destroyed. The
  // completions of receives are the only sign that entries of the shared receive queue are free
  // again. Other devices go on flushing receives until the queue pair is gone; another queue pair
  // may have its number then.
  const uint32_t gone = queue_pair->qp_num;
  completions.set_aside(gone);
  queue_pair.reset();
  completions.set_aside(gone);
  --reserve.living;
  ++reserve.destroyed;
}

Status VerbsQueuePair::initialize() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = port_.options().pkey_index;
  attributes.port_num = port_.choice().port;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  const int failed =
      ibv_modify_qp(queue_pair_.get(), &attributes,
                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return failed == 0 ? Status() : port_.error("initialize a queue pair", failed);
}

Status VerbsQueuePair::connect(const Address& peer) {
  ROCECOLL_CHECK(!connected_ && connecting_ == nullptr);
  const Result<QueuePairAddress> parsed =
      ToQueuePairAddress(peer, QueuePairAddress::Kind::kConnected);
  if (!parsed.ok()) return parsed.status();
  if (parsed.value().gid.is_ipv4() != own_.gid.is_ipv4()) {
    return Status(StatusCode::kInvalidArgument,
                  "cannot connect " + address().text() + " to " + peer.text() +
                      ": one GID is IPv4, one IPv6; choose with the option gid_index");
  }
  connecting_ = std::make_shared<Connecting>();
  connecting_->queue_pair = queue_pair_.get();
  connecting_->way = "find the way from " + ToText(own_.gid) + " to " + ToText(parsed.value().gid);
  connecting_->extensions = InCommon(own_.extensions, parsed.value().extensions);
  connecting_->to_receive = ready_to_receive(parsed.value());
  connecting_->to_send = ready_to_send();
  connecting_->owner = this;
  slow_call_ = slow_calls_.submit(
      [connecting = connecting_] { connecting->make_calls(); },
      [connecting = connecting_, &completions = completions_, &reserve = reserve_] {
        if (connecting->owner != nullptr) return connecting->owner->on_connect_over();
        Destroy(std::move(connecting->orphan), completions, reserve);
      });
  return {};
}

// The peer does the same with the same extensions. A device that refuses them after all is not
// connected, because the two ends would behave differently.
void VerbsQueuePair::Connecting::make_calls() {
  doing = "agree with the peer's device on extensions (ROCECOLL_IB_ECE=0 does without)";
  if (extensions.any()) failed = SetExtensions(*queue_pair, extensions);
  if (failed != 0) return;
  doing = way;
  failed = ibv_modify_qp(queue_pair, &to_receive,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (failed != 0 || abandoned) return;
  doing = "make a queue pair ready to send";
  failed = ibv_modify_qp(queue_pair, &to_send,
                         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                             IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

bool VerbsQueuePair::stop_connecting() {
  if (connecting_ == nullptr) return true;
  connecting_->abandoned = true;
  if (!slow_calls_.withdraw(slow_call_)) return false;
  connecting_.reset();
  return true;
}

void VerbsQueuePair::on_connect_over() {
  const std::shared_ptr<Connecting> over = std::move(connecting_);
  if (failed_) return enter_error();
  connected_ = over->failed == 0;
  WorkCompletion completion;
  completion.kind = WorkCompletion::Kind::kConnect;
  completion.queue_pair = number();
  if (!connected_) {
    why_not_connected_ = port_.error(over->doing, over->failed).message();
    completion.status = CompletionStatus::kFailed;
    completion.text = why_not_connected_.c_str();
  }
  connects_.push_back(completion);
}

ibv_qp_attr VerbsQueuePair::ready_to_receive(const QueuePairAddress& peer) const {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.ah_attr = port_.path_to(peer.gid);
  attributes.path_mtu = ToVerbsMtu(std::min(own_.mtu_bytes, peer.mtu_bytes));
  attributes.dest_qp_num = peer.number;
  attributes.rq_psn = peer.packet_number_or_key;
  attributes.max_dest_rd_atomic = 0;  // peers never read remotely
  attributes.min_rnr_timer = kReceiverNotReadyDelay;
  return attributes;
}

ibv_qp_attr VerbsQueuePair::ready_to_send() const {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = own_.packet_number_or_key;
  attributes.timeout = port_.options().timeout;
  attributes.retry_cnt = port_.options().retry_count;
  attributes.rnr_retry = kReceiverNotReadyRetries;
  attributes.max_rd_atomic = 0;
  return attributes;
}

size_t VerbsQueuePair::post(std::span<const SendRequest> batch) {
  ROCECOLL_CHECK(connected_ || failed_);
  size_t posted = 0;
  while (posted < batch.size()) {
    const auto list = batch.subspan(posted, std::min(kListRequests, batch.size() - posted));
    const size_t accepted = post_list(list);
    posted += accepted;
    if (accepted < list.size()) break;
  }
  return posted;
}

size_t VerbsQueuePair::post_list(std::span<const SendRequest> list) {
  std::array<ibv_send_wr, kListRequests> requests;
  std::array<ibv_sge, kListRequests> slices;
  for (size_t i = 0; i < list.size(); ++i) {
    ROCECOLL_CHECK(list[i].payload.size() <=
                   (list[i].inlined ? max_inline_bytes_ : port_.max_message_bytes()));
    ROCECOLL_CHECK(list[i].id < kRequestIdLimit);
    requests[i] = ToRequest(list[i], slices[i]);
    if (i > 0) requests[i - 1].next = &requests[i];
  }
  ibv_send_wr* refused = nullptr;
  const int failed = ibv_post_send(queue_pair_.get(), requests.data(), &refused);
  if (failed == 0) return list.size();
  // ENOMEM means that the queue is full. Any other error ends this queue pair, not the device: some
  // devices refuse requests once a queue pair has failed, and its completions may not have been
  // read yet.
  if (ErrorNumber(failed) != ENOMEM && !failed_) {
    Log(Severity::kInfo, port_.error("post a send request", failed).message());
  }
  return refused == nullptr ? 0 : static_cast<size_t>(refused - requests.data());
}

size_t VerbsQueuePair::post_receives(std::span<const ReceiveRequest> batch) {
  int failed = 0;
  const size_t posted = PostReceiveLists(
      batch,
      [this](ibv_recv_wr* list, ibv_recv_wr** refused) {
        return ibv_post_recv(queue_pair_.get(), list, refused);
      },
      failed);
  if (failed != 0 && !failed_) {
    Log(Severity::kInfo, port_.error("post a receive request", failed).message());
  }
  return posted;
}

void VerbsQueuePair::fail() {
  failed_ = true;
  if (stop_connecting()) enter_error();  // otherwise when the calls of connect() are over
}

void VerbsQueuePair::enter_error() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  const int failed = ibv_modify_qp(queue_pair_.get(), &attributes, IBV_QP_STATE);
  if (failed != 0) port_.health().set_broken(port_.error("stop a queue pair", failed).message());
}

}  // namespace rocecoll
