// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/rc/rc_stream.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "transport/fast_paths/rc/rc_options.h"

namespace rocecoll {

RcStream::~RcStream() {
  destroy();
  for (const Message& message : messages_) release(message);
  if (bare_headers_) memory_.buffers().give_back(bare_headers_);
}

Status RcStream::prepare() {
  ROCECOLL_CHECK(queue_pair_ == nullptr);
  if (!bare_headers_) bare_headers_ = memory_.buffers().take(BlockPool::kLargestBytes >> 6);
  if (!bare_headers_) return memory_.buffers().refusal();
  auto made = device_.create_queue_pair();
  if (!made.ok()) return made.status();
  queue_pair_ = made.take();
  const auto slots = static_cast<uint32_t>(bare_headers_.size / StreamHeader::kWireBytes);
  max_requests_ = std::min(device_.limits().max_send_requests, slots);
  // Fewer would fill up before one asks for a completion.
  if (max_requests_ < kSignalEvery + kSpareRequests) {
    queue_pair_.reset();
    return Status(StatusCode::kUnsupported, device_.description() + " has queue pairs for only " +
                                                std::to_string(max_requests_) + " send requests");
  }
  batch_.clear();
  requests_ = acknowledged_ = probe_request_ = last_request_ = 0;
  unsignaled_ = owed_ = owed_bare_ = 0;
  connected_ = started_ = proved_ = failed_ = drained_ = false;
  wants_acknowledgement_ = wants_heartbeat_ = false;
  messages_.rewind();
  for (Message& message : messages_) send_again(message);
  return {};
}

void RcStream::send_again(Message& message) {
  if (message.requested != 0) {
    ++stats_.packets_retransmitted;
    ++traffic_.packets_retransmitted;
  }
  message.posted = message.requested = 0;
}

Status RcStream::connect(const Address& peer, size_t peer_rail, uint32_t our_credits,
                         uint32_t peer_credits) {
  ROCECOLL_CHECK(prepared() && !connected_);
  peer_rail_ = peer_rail;
  our_credits_ = our_credits;
  send_credits_ = peer_credits;
  bare_credits_ = kBareCredits;
  return queue_pair_->connect(peer);
}

void RcStream::probe() {
  ROCECOLL_CHECK(connected_ && !failed_);
  add_bare(StreamHeader::Kind::kProbe);
  batch_.back().signaled = true;
  probe_request_ = requests_;
  if (!post_batch().ok()) fail();
}

// The last request shows that everything before it has been flushed: those that had succeeded
// before the failure, unsignaled, never complete.
void RcStream::fail() {
  if (queue_pair_ == nullptr || failed_) return;
  failed_ = true;
  batch_.clear();
  queue_pair_->fail();
  if (!connected_) {
    drained_ = true;
    return;
  }
  SendRequest last;
  last.id = last_request_ = ++requests_;
  last.signaled = true;
  last.inlined = true;
  if (queue_pair_->post({&last, 1}) == 0) drained_ = true;  // what is left ends with destroy()
}

void RcStream::destroy() {
  if (queue_pair_ == nullptr) return;
  if (!failed_) queue_pair_->fail();
  queue_pair_.reset();
  failed_ = true;
}

bool RcStream::push_frame(const FrameBytes& frame) {
  ROCECOLL_CHECK(!frame.empty() && frame.size() <= RcOptions::kMaxFrameBytes);
  if (queued_frames_ >= kMaxQueuedFrames) return false;
  Message message;
  message.size = StreamHeader::kWireBytes + frame.size();
  message.block = memory_.frames().take(message.size);
  if (!message.block) return false;
  frame.copy_to(message.block.data + StreamHeader::kWireBytes);
  messages_.push(message);
  ++queued_frames_;
  return true;
}

uint64_t RcStream::unposted_frames() const {
  return static_cast<uint64_t>(std::ranges::count_if(
      messages_.unsent(), [](const Message& message) { return message.write == nullptr; }));
}

void RcStream::push_part(RcWrite& write, size_t offset, size_t size) {
  Message message;
  message.write = &write;
  message.offset = offset;
  message.size = size;
  messages_.push(message);
}

uint32_t RcStream::room() const {
  const auto outstanding = static_cast<uint32_t>(requests_ - acknowledged_);
  ROCECOLL_CHECK(outstanding <= max_requests_);
  return max_requests_ - outstanding;
}

// Takes along what is owed.
StreamHeader RcStream::make_header(StreamHeader::Kind kind, uint64_t number) {
  StreamHeader header;
  header.kind = kind;
  header.number = static_cast<uint32_t>(number);
  header.credits = static_cast<uint16_t>(std::min<uint32_t>(owed_, UINT16_MAX));
  header.bare_credits = static_cast<uint8_t>(std::min<uint32_t>(owed_bare_, UINT8_MAX));
  owed_ -= header.credits;
  owed_bare_ -= header.bare_credits;
  return header;
}

bool RcStream::must_return_credits() const {
  return owed_ >= std::max(1u, our_credits_ / 2) || owed_bare_ >= 2;
}

SendRequest& RcStream::add_request(SendRequest::Kind kind, std::span<const std::byte> payload,
                                   uint32_t local_key) {
  SendRequest request;
  request.kind = kind;
  request.payload = payload;
  request.local_key = local_key;
  request.id = ++requests_;
  request.inlined = payload.size() <= device_.limits().max_inline_bytes;
  request.signaled = ++unsignaled_ >= kSignalEvery;
  if (request.signaled) unsignaled_ = 0;
  ++stats_.packets_sent;
  stats_.bytes_sent += payload.size();
  traffic_.sent(payload.size());
  batch_.push_back(request);
  return batch_.back();
}

void RcStream::add_bare(StreamHeader::Kind kind) {
  const size_t slots = bare_headers_.size / StreamHeader::kWireBytes;
  std::byte* header = bare_headers_.data + (requests_ % slots) * StreamHeader::kWireBytes;
  const std::span<std::byte> bytes(header, StreamHeader::kWireBytes);
  make_header(kind, 0).store(bytes);
  add_request(SendRequest::Kind::kSend, bytes, bare_headers_.region.of[rail_].local_key);
  if (kind != StreamHeader::Kind::kProbe) --bare_credits_;
}

void RcStream::add_frame(Message& message) {
  const std::span<std::byte> bytes(message.block.data, message.size);
  make_header(StreamHeader::Kind::kFrame, messages_.next()).store(bytes);
  add_request(SendRequest::Kind::kSend, bytes, message.block.region.of[rail_].local_key);
  message.requested = requests_;
  --send_credits_;
}

// The part's next request; the last one tells the peer, and its end is the write's.
Status RcStream::add_part_request(Message& message) {
  RcWrite& write = *message.write;
  if (!write.lease.held) {
    auto lease = memory_.lend_for_read(write.from, write.oldest);
    waits_for_memory_ = !lease.ok() && (memory_.lent_for_read() > 0 || !write.oldest);
    if (waits_for_memory_) return {};
    if (!lease.ok()) return lease.status();
    write.lease = lease.take();
  }
  const size_t limit = std::min(kRequestBytes, device_.limits().max_message_bytes);
  const size_t size = std::min(message.size - message.posted, limit);
  const size_t offset = message.offset + message.posted;
  const bool last = message.posted + size == message.size && (size == 0 || !immediate_apart_);
  SendRequest& request =
      add_request(last ? SendRequest::Kind::kWriteWithImmediate : SendRequest::Kind::kWrite,
                  {write.lease.data + offset, size}, write.lease.region.of[rail_].local_key);
  request.remote_address = write.to.base + offset;
  request.remote_key = RemoteKey(write.to, peer_rail_);
  message.posted += size;
  if (!last) return {};
  request.immediate = ExposedNumber(write.to);
  if (!request.signaled) unsignaled_ = 0;
  request.signaled = true;
  message.requested = requests_;
  --send_credits_;
  return {};
}

Status RcStream::post_batch() {
  if (batch_.empty()) return {};
  const size_t posted = queue_pair_->post(batch_);
  const bool all = posted == batch_.size();
  batch_.clear();
  if (all) return {};
  return Status(StatusCode::kNetwork, device_.description() + " does not take send requests");
}

Status RcStream::pump() {
  waits_for_memory_ = false;
  if (!started_ || failed_) return {};
  while (!messages_.all_sent() && send_credits_ > 0 && room() > kSpareRequests) {
    Message& message = messages_.to_send();
    if (message.write == nullptr) {
      add_frame(message);
    } else if (Status status = add_part_request(message); !status.ok()) {
      batch_.clear();
      return status;
    }
    if (waits_for_memory_) break;
    if (message.requested != 0) messages_.on_sent();
    if (batch_.size() < kBatch) continue;
    if (Status status = post_batch(); !status.ok()) return status;
  }
  if (wants_heartbeat_ && bare_credits_ > 0 && room() > 1) {
    add_bare(StreamHeader::Kind::kHeartbeat);
    wants_heartbeat_ = false;
  }
  const bool ask = wants_acknowledgement_ && unsignaled_ > 0;
  if ((must_return_credits() || ask) && bare_credits_ > 0 && room() > 1) {
    if (batch_.empty() || must_return_credits()) add_bare(StreamHeader::Kind::kCredit);
    if (ask) {
      batch_.back().signaled = true;
      unsignaled_ = 0;
    }
  }
  return post_batch();
}

// The peer has it.
void RcStream::settle(const Message& message) {
  if (message.write != nullptr && --message.write->parts_left == 0) done_.push_back(message.write);
  release(message);
}

void RcStream::release(const Message& message) {
  if (!message.block) return;
  memory_.frames().give_back(message.block);
  --queued_frames_;
}

std::vector<RcWrite*> RcStream::take_done() { return std::exchange(done_, {}); }

void RcStream::on_sent(const WorkCompletion& completion) {
  if (failed_) {
    if (completion.id >= last_request_) drained_ = true;
    return;
  }
  if (completion.status != CompletionStatus::kSuccess) return;  // the owner fails us
  ROCECOLL_CHECK(completion.id > acknowledged_ && completion.id <= requests_);
  acknowledged_ = completion.id;
  if (probe_request_ != 0 && acknowledged_ >= probe_request_) proved_ = true;
  while (!messages_.empty() && messages_.front().requested != 0 &&
         messages_.front().requested <= acknowledged_) {
    settle(messages_.front());
    messages_.pop_front();
  }
}

bool RcStream::acknowledge(uint64_t count) {
  ROCECOLL_CHECK(!started_ || !prepared());
  return messages_.acknowledge(count, [this](const Message& message) { settle(message); });
}

std::vector<WireBytes> RcStream::take_frames() {
  ROCECOLL_CHECK(!started_ || !prepared());
  std::vector<WireBytes> frames;
  for (const Message& message : messages_.take()) {
    if (message.block) {
      frames.emplace_back(message.block.data + StreamHeader::kWireBytes,
                          message.block.data + message.size);
    }
    release(message);
  }
  return frames;
}

void RcStream::hand_over(HandOver what, RcStream& to) {
  ROCECOLL_CHECK(this != &to && !to.started_ && (!started_ || !prepared()));
  for (Message& message : messages_.take()) {
    if (what == HandOver::kFrames && !message.block) {
      messages_.push(message);
      continue;
    }
    send_again(message);
    if (message.block) {
      --queued_frames_;
      ++to.queued_frames_;
    }
    to.messages_.push(message);
  }
  std::ranges::stable_sort(to.messages_, {}, [](const Message& message) {
    return message.write == nullptr ? 0 : message.write->age;  // frames first
  });
}

void RcStream::forget_writes() {
  ROCECOLL_CHECK(failed_ || !prepared());
  for (Message& message : messages_) message.write = nullptr;
  done_.clear();
}

}  // namespace rocecoll
