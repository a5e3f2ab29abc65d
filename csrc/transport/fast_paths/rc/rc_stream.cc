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
  ROCECOLL_CHECK(!prepared());
  if (!bare_headers_) bare_headers_ = memory_.buffers().take(BlockPool::kLargestBytes >> 6);
  if (!bare_headers_) return memory_.buffers().refusal();
  Status status =
      queue_.prepare(static_cast<uint32_t>(bare_headers_.size / StreamHeader::kWireBytes));
  if (!status.ok()) return status;
  credits_ = {};
  probe_request_ = 0;
  started_ = proved_ = false;
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
  ROCECOLL_CHECK(prepared() && !connected());
  peer_rail_ = peer_rail;
  credits_ = StreamCredits(our_credits, peer_credits);
  return queue_pair().connect(peer);
}

void RcStream::probe() {
  ROCECOLL_CHECK(connected() && !failed());
  add_bare(StreamHeader::Kind::kProbe).signaled = true;
  probe_request_ = queue_.newest();
  if (!queue_.post().ok()) fail();
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

// Takes along the credits that are owed.
void RcStream::store_header(StreamHeader::Kind kind, uint64_t number, std::span<std::byte> to) {
  StreamHeader header;
  header.kind = kind;
  header.number = static_cast<uint32_t>(number);
  credits_.return_in(header);
  header.store(to);
}

SendRequest& RcStream::add_bare(StreamHeader::Kind kind) {
  const size_t slots = bare_headers_.size / StreamHeader::kWireBytes;
  std::byte* header = bare_headers_.data + (queue_.newest() % slots) * StreamHeader::kWireBytes;
  const std::span<std::byte> bytes(header, StreamHeader::kWireBytes);
  store_header(kind, 0, bytes);
  if (kind != StreamHeader::Kind::kProbe) credits_.use_bare();
  return queue_.add(SendRequest::Kind::kSend, bytes, bare_headers_.region.of[rail_].local_key);
}

void RcStream::add_frame(Message& message) {
  const std::span<std::byte> bytes(message.block.data, message.size);
  store_header(StreamHeader::Kind::kFrame, messages_.next(), bytes);
  queue_.add(SendRequest::Kind::kSend, bytes, message.block.region.of[rail_].local_key);
  message.requested = queue_.newest();
  credits_.use();
}

// Adds the next request of a part. The last one tells the peer that the part is complete.
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
      queue_.add(last ? SendRequest::Kind::kWriteWithImmediate : SendRequest::Kind::kWrite,
                 {write.lease.data + offset, size}, write.lease.region.of[rail_].local_key);
  request.remote_address = write.to.base + offset;
  request.remote_key = RemoteKey(write.to, peer_rail_);
  message.posted += size;
  if (!last) return {};
  request.immediate = ExposedNumber(write.to);
  queue_.signal_newest();
  message.requested = queue_.newest();
  credits_.use();
  return {};
}

Status RcStream::pump() {
  waits_for_memory_ = false;
  if (!started_ || failed()) return {};
  if (Status status = add_messages(); !status.ok()) return status;
  if (wants_heartbeat_ && credits_.any_bare() && queue_.room() > 1) {
    add_bare(StreamHeader::Kind::kHeartbeat);
    wants_heartbeat_ = false;
  }
  add_credits();
  return queue_.post();
}

// Posts full batches, and leaves the rest of the requests in one.
Status RcStream::add_messages() {
  while (!messages_.all_sent() && credits_.any() && queue_.room() > SendQueue::kSpareRequests) {
    Message& message = messages_.to_send();
    if (message.write == nullptr) {
      add_frame(message);
    } else if (Status status = add_part_request(message); !status.ok()) {
      queue_.drop_batch();
      return status;
    }
    if (waits_for_memory_) break;
    if (message.requested != 0) messages_.on_sent();
    if (queue_.batched() < kBatch) continue;
    if (Status status = queue_.post(); !status.ok()) return status;
  }
  return {};
}

// Where credits have to go back, or a completion is asked for and there is no request to ask.
void RcStream::add_credits() {
  const bool ask = wants_acknowledgement_ && queue_.any_unsignaled();
  if (!(credits_.must_return() || ask) || !credits_.any_bare() || queue_.room() <= 1) return;
  if (queue_.batched() == 0 || credits_.must_return()) add_bare(StreamHeader::Kind::kCredit);
  if (ask) queue_.signal_newest();
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
  if (!queue_.on_sent(completion)) return;
  if (probe_request_ != 0 && queue_.done() >= probe_request_) proved_ = true;
  while (!messages_.empty() && messages_.front().requested != 0 &&
         messages_.front().requested <= queue_.done()) {
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
  ROCECOLL_CHECK(failed() || !prepared());
  for (Message& message : messages_) message.write = nullptr;
  done_.clear();
}

}  // namespace rocecoll
