// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/sim_rdma_queue_pair.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"

namespace rocecoll {
namespace {

constexpr std::byte kSimRdmaFamily{0xf6};  // first byte of our addresses, unlike any real family
constexpr size_t kAddressBytes = 9;

const char* Text(CompletionStatus status) {
  switch (status) {
    case CompletionStatus::kSuccess:
      return "success";
    case CompletionStatus::kFlushed:
      return "work request flushed";
    case CompletionStatus::kRetryExceeded:
      return "transport retry counter exceeded";
    case CompletionStatus::kReceiverNotReady:
      return "receiver-not-ready retry counter exceeded";
    case CompletionStatus::kAccessDenied:
      return "remote access error";
    case CompletionStatus::kFailed:
      return "queue pair operation error";
  }
  return "unknown";
}

}  // namespace

SimRdmaQueuePair::SimRdmaQueuePair(SimRdmaFabric& fabric, SimRdmaDevice& device, uint32_t number)
    : fabric_(fabric), device_(device), number_(number) {}

SimRdmaQueuePair::~SimRdmaQueuePair() {
  ROCECOLL_CHECK(requests_.empty() || device_.dead());
  device_.forget(number_);
}

Address SimRdmaQueuePair::address() const {
  std::array<std::byte, kAddressBytes> bytes;
  bytes[0] = kSimRdmaFamily;
  StoreLe(bytes.data() + 1, device_.endpoint());
  StoreLe(bytes.data() + 5, number_);
  return Address(bytes, "sim-rdma:" + std::to_string(device_.endpoint()) + " queue pair " +
                            std::to_string(number_));
}

Status SimRdmaQueuePair::connect(const Address& peer) {
  ROCECOLL_CHECK(!connected() && connecting_.number == 0);
  const auto bytes = peer.bytes();
  if (bytes.size() != kAddressBytes || bytes[0] != kSimRdmaFamily) {
    return Status(StatusCode::kInvalidArgument,
                  "not an address of a simulated queue pair: " + peer.text());
  }
  connecting_ = {LoadLe<uint32_t>(bytes.data() + 1), LoadLe<uint32_t>(bytes.data() + 5)};
  refusal_ = device_.description() + " cannot reach " + peer.text();
  device_.connect_in_turn(number_);
  return Status();
}

void SimRdmaQueuePair::on_connect_time() {
  const End peer = std::exchange(connecting_, {});
  if (failed_ || device_.dead()) return;
  WorkCompletion completion;
  completion.kind = WorkCompletion::Kind::kConnect;
  completion.queue_pair = number_;
  if (device_.slot().refusals.connections) {
    ++device_.slot().refusals.connections_refused;
    completion.status = CompletionStatus::kFailed;
    completion.text = refusal_.c_str();
  } else {
    peer_ = peer;
    if (SimRdmaQueuePair* other = fabric_.find(peer_)) other->on_path_changed();
  }
  device_.complete(completion, 0);
}

size_t SimRdmaQueuePair::post(std::span<const SendRequest> batch) {
  if (device_.dead()) return 0;
  ROCECOLL_CHECK(connected() || failed_);
  if (failed_ && device_.slot().refusals.posts_after_failure) return 0;
  const size_t room = device_.limits().max_send_requests - (posted_ - free_places_until_);
  const size_t count = std::min(batch.size(), room);
  for (const SendRequest& request : batch.first(count)) accept(request);
  return count;
}

size_t SimRdmaQueuePair::post_receives(std::span<const ReceiveRequest> batch) {
  ROCECOLL_CHECK(!device_.limits().shared_receives);
  if (device_.dead()) return 0;
  if (failed_ && device_.slot().refusals.posts_after_failure) return 0;
  const size_t room = device_.limits().max_receive_requests - own_receives_.size();
  const size_t count = std::min(batch.size(), room);
  own_receives_.insert(own_receives_.end(), batch.begin(),
                       batch.begin() + static_cast<ptrdiff_t>(count));
  if (failed_) flush_receives();
  if (SimRdmaQueuePair* peer = fabric_.find(peer_)) peer->on_receiver_ready();
  return count;
}

std::deque<ReceiveRequest>& SimRdmaQueuePair::receives() {
  return device_.limits().shared_receives ? device_.receives_ : own_receives_;
}

ReceiveRequest SimRdmaQueuePair::take_receive() {
  const ReceiveRequest request = receives().front();
  receives().pop_front();
  return request;
}

void SimRdmaQueuePair::flush_receives() {
  while (!own_receives_.empty()) {
    complete_receive(own_receives_.front(), {}, 0, CompletionStatus::kFlushed);
    own_receives_.pop_front();
  }
}

void SimRdmaQueuePair::accept(const SendRequest& request) {
  const RdmaLimits limits = device_.limits();
  ROCECOLL_CHECK(request.payload.size() <= limits.max_message_bytes);
  ROCECOLL_CHECK(!request.inlined || request.payload.size() <= limits.max_inline_bytes);
  const bool immediate = request.kind == SendRequest::Kind::kWriteWithImmediate;
  if (immediate && !request.payload.empty()) ++fabric_.data_with_immediates_;
  const uint64_t sequence = posted_++;
  if (failed_) {
    ++answered_;
    complete_send(request, sequence, CompletionStatus::kFlushed);
    return;
  }
  Posted& posted = requests_.emplace_back();
  posted.request = request;
  if (request.inlined) {
    posted.inlined.assign(request.payload.begin(), request.payload.end());
    posted.request.payload = posted.inlined;
  }
  posted.flight = fabric_.launch(device_.endpoint(), request.payload.size());
  last_arrival_ = std::max(last_arrival_, posted.flight.arrives);
  posted.flight.arrives = last_arrival_;
  fabric_.schedule(last_arrival_, end(), [](SimRdmaQueuePair& self) { self.on_arrival(); });
}

void SimRdmaQueuePair::on_arrival() {
  if (failed_) return;
  ++arrived_;
  advance();
}

void SimRdmaQueuePair::on_answer() {
  if (failed_) return;
  ++waiting_answers_;
  advance();
}

void SimRdmaQueuePair::on_path_changed() {
  if (stall_ != Stall::kPath) return;
  end_stall();
  advance();
}

void SimRdmaQueuePair::on_receiver_ready() {
  if (stall_ != Stall::kReceiver) return;
  end_stall();
  advance();
}

SimRdmaQueuePair* SimRdmaQueuePair::serving_peer() const {
  SimRdmaQueuePair* peer = fabric_.find(peer_);
  if (peer == nullptr || peer->failed_ || peer->peer_ != end()) return nullptr;
  return peer;
}

void SimRdmaQueuePair::advance() {
  if (device_.dead()) return;
  if (!fabric_.passable(end().endpoint, peer_.endpoint)) {
    if (waiting_answers_ > 0 || arrived_ > executed_) {
      stall(Stall::kPath, fabric_.options().retry_timeout);
    }
    return;
  }
  while (!refused_ && executed_ < arrived_) {
    SimRdmaQueuePair* peer = serving_peer();
    if (peer == nullptr) {
      if (SimRdmaQueuePair* gone = fabric_.find(peer_)) {
        gone->land_unnoticed(end(), at(executed_).request);
      }
      stall(Stall::kPath, fabric_.options().retry_timeout);
      break;
    }
    if (!execute_next(*peer)) break;
  }
  while (waiting_answers_ > 0 && !failed_) {
    --waiting_answers_;
    const Posted& oldest = requests_.front();
    if (oldest.outcome != CompletionStatus::kSuccess) {
      enter_error(oldest.outcome);
      return;
    }
    const uint64_t sequence = answered_++;
    if (oldest.request.signaled) {
      complete_send(oldest.request, sequence, CompletionStatus::kSuccess);
    }
    requests_.pop_front();
  }
}

bool SimRdmaQueuePair::execute_next(SimRdmaQueuePair& peer) {
  const Posted& posted = at(executed_);
  const SendRequest& request = posted.request;
  if (!request.inlined && !device_.covers(request.local_key, request.payload)) {
    set_outcome(CompletionStatus::kFailed);
    return true;
  }
  switch (peer.serve(request, request.payload)) {
    case Verdict::kDone:
      set_outcome(CompletionStatus::kSuccess);
      return true;
    case Verdict::kAccessDenied:
      set_outcome(CompletionStatus::kAccessDenied);
      return true;
    case Verdict::kFailed:
      set_outcome(CompletionStatus::kFailed);
      return true;
    case Verdict::kNoReceiveRequest:
      break;
  }
  if (stall_ != Stall::kReceiver) {
    stall(Stall::kReceiver, fabric_.options().receiver_wait);
    if (peer.device_.limits().shared_receives) peer.device_.add_waiter(end());
  }
  return false;
}

void SimRdmaQueuePair::set_outcome(CompletionStatus outcome) {
  end_stall();
  at(executed_).outcome = outcome;
  refused_ = outcome != CompletionStatus::kSuccess;
  ++executed_;
  fabric_.schedule(fabric_.queue_.now() + fabric_.options().latency, end(),
                   [](SimRdmaQueuePair& self) { self.on_answer(); });
}

SimRdmaQueuePair::Verdict SimRdmaQueuePair::serve(const SendRequest& request,
                                                  std::span<const std::byte> payload) {
  if (request.kind == SendRequest::Kind::kSend) return serve_send(request, payload);
  const bool immediate = request.kind == SendRequest::Kind::kWriteWithImmediate;
  if (!payload.empty()) {
    const auto into = device_.writable(request.remote_key, request.remote_address, payload.size());
    if (into.empty()) {
      enter_error(CompletionStatus::kFlushed);
      return Verdict::kAccessDenied;
    }
    if (immediate && receives().empty()) return Verdict::kNoReceiveRequest;
    std::memmove(into.data(), payload.data(), payload.size());
  }
  if (immediate) {
    if (receives().empty()) return Verdict::kNoReceiveRequest;
    complete_receive(take_receive(), request, payload.size(), CompletionStatus::kSuccess);
  }
  fabric_.note(static_cast<uint64_t>(fabric_.queue_.now().time_since_epoch().count()));
  fabric_.note(number_);
  fabric_.note(payload);
  return Verdict::kDone;
}

void SimRdmaQueuePair::land_unnoticed(const End& from, const SendRequest& request) {
  if (!failed_ || landed_unnoticed_ || peer_ != from) return;
  if (request.kind == SendRequest::Kind::kSend) return;
  const std::span<const std::byte> payload = request.payload;
  const auto into = device_.writable(request.remote_key, request.remote_address, payload.size());
  if (into.empty()) return;
  landed_unnoticed_ = true;
  std::memmove(into.data(), payload.data(), payload.size());
}

SimRdmaQueuePair::Verdict SimRdmaQueuePair::serve_send(const SendRequest& request,
                                                       std::span<const std::byte> payload) {
  if (receives().empty()) return Verdict::kNoReceiveRequest;
  const ReceiveRequest receive = take_receive();
  if (payload.size() > receive.buffer.size() ||
      !device_.covers(receive.local_key, receive.buffer)) {
    complete_receive(receive, request, 0, CompletionStatus::kFailed);
    enter_error(CompletionStatus::kFlushed);
    return Verdict::kFailed;
  }
  if (!payload.empty()) std::memcpy(receive.buffer.data(), payload.data(), payload.size());
  complete_receive(receive, request, payload.size(), CompletionStatus::kSuccess);
  fabric_.note(static_cast<uint64_t>(fabric_.queue_.now().time_since_epoch().count()));
  fabric_.note(number_);
  fabric_.note(payload);
  return Verdict::kDone;
}

void SimRdmaQueuePair::stall(Stall why, Duration limit) {
  if (stall_ == why) return;
  stall_ = why;
  const uint64_t epoch = ++stall_epoch_;
  fabric_.schedule(fabric_.queue_.now() + limit, end(),
                   [epoch](SimRdmaQueuePair& self) { self.on_stalled_too_long(epoch); });
}

void SimRdmaQueuePair::end_stall() {
  stall_ = Stall::kNone;
  ++stall_epoch_;
}

void SimRdmaQueuePair::on_stalled_too_long(uint64_t epoch) {
  if (failed_ || stall_ == Stall::kNone || epoch != stall_epoch_) return;
  if (stall_ == Stall::kPath) {
    enter_error(CompletionStatus::kRetryExceeded);
  } else {
    // The refusal travels back after the answers to earlier requests.
    set_outcome(CompletionStatus::kReceiverNotReady);
  }
}

void SimRdmaQueuePair::enter_error(CompletionStatus first) {
  if (failed_ || device_.dead()) return;
  let_departed_requests_arrive();
  failed_ = true;
  end_stall();
  for (CompletionStatus status = first; !requests_.empty(); status = CompletionStatus::kFlushed) {
    const SendRequest request = requests_.front().request;
    requests_.pop_front();
    complete_send(request, answered_++, status);
  }
  flush_receives();
}

void SimRdmaQueuePair::let_departed_requests_arrive() {
  // After a request that waits, or was refused, nothing would be executed.
  if (stall_ != Stall::kNone || refused_ || executed_ != arrived_) return;
  const Instant now = fabric_.queue_.now();
  // False: one was lost, so later ones come too early.
  auto in_order = std::make_shared<bool>(true);
  for (uint64_t sequence = arrived_; sequence < posted_; ++sequence) {
    const Posted& posted = at(sequence);
    const SendRequest& request = posted.request;
    if (posted.flight.departs > now) return;
    if (!request.inlined && !device_.covers(request.local_key, request.payload)) return;
    auto copy =
        std::make_shared<std::vector<std::byte>>(request.payload.begin(), request.payload.end());
    fabric_.schedule(posted.flight.arrives, peer_,
                     [from = end(), request, copy, in_order](SimRdmaQueuePair& peer) {
                       *in_order = *in_order && !peer.failed_ && peer.peer_ == from &&
                                   peer.fabric_.passable(from.endpoint, peer.end().endpoint) &&
                                   peer.serve(request, *copy) == Verdict::kDone;
                     });
  }
}

void SimRdmaQueuePair::complete_send(const SendRequest& request, uint64_t sequence,
                                     CompletionStatus status) {
  WorkCompletion completion;
  completion.status = status;
  completion.queue_pair = number_;
  completion.id = request.id;
  completion.text = Text(status);
  device_.complete(completion, sequence);
}

void SimRdmaQueuePair::complete_receive(const ReceiveRequest& receive, const SendRequest& request,
                                        size_t bytes, CompletionStatus status) {
  WorkCompletion completion;
  if (request.kind == SendRequest::Kind::kWriteWithImmediate) {
    completion.kind = WorkCompletion::Kind::kReceiveImmediate;
    completion.immediate = request.immediate;
  } else {
    completion.kind = WorkCompletion::Kind::kReceive;
  }
  completion.status = status;
  completion.queue_pair = number_;
  completion.bytes = static_cast<uint32_t>(bytes);
  completion.id = receive.id;
  completion.text = Text(status);
  device_.complete(completion, 0);
}

}  // namespace rocecoll
