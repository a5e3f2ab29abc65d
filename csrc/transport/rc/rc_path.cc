// SPDX-License-Identifier: Apache-2.0
#include "transport/rc/rc_path.h"

#include <utility>

#include "base/check.h"
#include "transport/rc/rc_device.h"

namespace rocecoll {

RcPath::RcPath(RcDevice& device) : device_(device), number_(device.number_link()) {}

RcPath::~RcPath() {
  device_.forget(*this);
  give_up();
}

// All streams have a queue pair afterwards, or none has.
Status RcPath::prepare() {
  Status status;
  if (streams_.empty()) {
    if (device_.credits() == 0) {
      return Status(StatusCode::kUnsupported,
                    "the receive queues of " + device_.description() + " are too short");
    }
    const uint32_t count = device_.options().queue_pairs_per_connection;
    const uint32_t receives = count * RcStream::ReceivesFor(device_.credits());
    status = device_.registered_memory().reserve();
    if (status.ok()) status = device_.receives().reserve(receives);
    if (!status.ok()) return status;
    reserved_receives_ = receives;
    for (uint32_t i = 0; i < count; ++i) streams_.push_back(device_.make_stream(traffic_));
  }
  for (const auto& stream : streams_) {
    status = prepare(*stream);
    if (!status.ok()) break;
  }
  if (!status.ok()) destroy();
  return status;
}

Status RcPath::prepare(RcStream& stream) {
  Status status = stream.prepare();
  if (!status.ok()) return status;
  device_.add(stream.number(), *this);
  return device_.receives().fill(stream.queue_pair(), RcStream::ReceivesFor(device_.credits()));
}

FastPath::Ends RcPath::ends() const {
  Ends ends{static_cast<uint16_t>(device_.credits()), {}};
  for (const auto& stream : streams_) {
    if (stream->prepared()) ends.addresses.push_back(stream->address());
  }
  return ends;
}

Status RcPath::connect(const Ends& peer) {
  if (peer_credits_ == 0) {
    while (streams_.size() > peer.addresses.size()) {
      device_.remove(*streams_.back());
      streams_.pop_back();
    }
    peer_credits_ = peer.credits;
  }
  if (streams_.size() > peer.addresses.size()) {
    return Status(StatusCode::kNetwork, "the peer offers fewer queue pairs than before");
  }
  for (size_t i = 0; i < streams_.size(); ++i) {
    const Status status = streams_[i]->connect(peer.addresses[i], device_.credits(), peer_credits_);
    if (!status.ok()) return status;
  }
  return {};
}

bool RcPath::connected() const {
  return std::ranges::all_of(streams_, [](const auto& stream) { return stream->connected(); });
}

Status RcPath::probe() {
  for (const auto& stream : streams_) stream->probe();
  if (!failed()) return {};
  return Status(StatusCode::kNetwork, device_.description() + " does not take send requests");
}

bool RcPath::proved() const {
  return std::ranges::all_of(streams_, [](const auto& stream) { return stream->proved(); });
}

void RcPath::start() {
  for (const auto& stream : streams_) stream->start();
}

void RcPath::fail() {
  for (const auto& stream : streams_) stream->fail();
}

bool RcPath::failed() const {
  return std::ranges::any_of(streams_, [](const auto& stream) { return stream->failed(); });
}

bool RcPath::drained() const {
  return std::ranges::all_of(streams_, [](const auto& stream) { return stream->drained(); });
}

void RcPath::destroy() {
  for (const auto& stream : streams_) {
    if (!stream->prepared()) continue;
    device_.remove(*stream);
    stream->destroy();
  }
}

std::vector<WireBytes> RcPath::give_up() {
  destroy();
  std::vector<WireBytes> frames;
  for (const auto& stream : streams_) {
    for (WireBytes& frame : stream->take_frames()) frames.push_back(std::move(frame));
  }
  forget_lent();
  streams_.clear();
  peer_credits_ = 0;
  if (reserved_receives_ > 0) device_.receives().release(std::exchange(reserved_receives_, 0));
  return frames;
}

std::string RcPath::carrier() const {
  return "RoCE, reliable connection over " + device_.description();
}

FastPath::Counts RcPath::received() const {
  Counts counts{};
  for (size_t i = 0; i < streams_.size(); ++i) counts[i] = streams_[i]->next_received();
  return counts;
}

bool RcPath::acknowledge(const Counts& received) {
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (!streams_[i]->acknowledge(received[i])) return false;
  }
  return true;
}

bool RcPath::empty() const {
  return std::ranges::all_of(streams_, [](const auto& stream) { return stream->empty(); });
}

void RcPath::send_heartbeat() {
  if (!streams_.empty()) streams_.front()->send_heartbeat();
}

void RcPath::request_acknowledgement() {
  for (const auto& stream : streams_) stream->request_acknowledgement();
}

void RcPath::push_write(uint32_t number, const RemoteSlice& to, LocalSlice from) {
  auto& write = writes_[number];
  write = std::make_unique<RcWrite>(RcWrite{number, to, from, {}, 0});
  const size_t parts = PartCount(from.size, streams_.size());
  write->parts_left = parts;
  for (size_t i = 0; i < parts; ++i) {
    const size_t begin = PartBegin(from.size, parts, i);
    RcStream& stream = *streams_[(number + i) % streams_.size()];
    stream.push_part(*write, begin, PartBegin(from.size, parts, i + 1) - begin);
  }
}

Status RcPath::pump() {
  device_.receives().flush();
  for (const auto& stream : streams_) {
    if (Status status = stream->pump(); !status.ok()) return status;
    if (stream->waits_for_memory()) device_.wait_for_memory(*this);
  }
  return {};
}

std::vector<uint32_t> RcPath::take_written() {
  std::vector<uint32_t> numbers;
  for (const auto& stream : streams_) {
    for (const RcWrite* write : stream->take_done()) {
      numbers.push_back(write->number);
      const auto found = writes_.find(write->number);
      ROCECOLL_CHECK(found != writes_.end());
      device_.registered_memory().give_back(found->second->lease);
      writes_.erase(found);
    }
  }
  if (!numbers.empty()) device_.on_memory_back();
  return numbers;
}

Result<RemoteSlice> RcPath::expose(uint32_t number, LocalSlice into) {
  auto lease = device_.registered_memory().lend_for_write(into, number_);
  if (!lease.ok()) return lease.status();
  const Exposure& exposure = exposures_[number] = {into, lease.take(), 0};
  return RemoteSlice{reinterpret_cast<uint64_t>(exposure.lease.data), into.size,
                     uint64_t{number} << 32 | exposure.lease.remote_key};
}

bool RcPath::take_back(uint32_t number) {
  const auto found = exposures_.find(number);
  if (found == exposures_.end()) return true;
  const bool untouched = found->second.parts_landed == 0;
  device_.registered_memory().give_back(found->second.lease);
  exposures_.erase(found);
  return untouched;
}

void RcPath::forget_lent() {
  for (const auto& stream : streams_) stream->forget_writes();
  for (auto& [number, write] : writes_) device_.registered_memory().give_back(write->lease);
  for (auto& [number, exposure] : exposures_) device_.registered_memory().give_back(exposure.lease);
  writes_.clear();
  exposures_.clear();
  device_.on_memory_back();
}

RcStream* RcPath::stream_of(uint32_t queue_pair) {
  const auto found = std::ranges::find_if(streams_, [queue_pair](const auto& stream) {
    return stream->prepared() && stream->number() == queue_pair;
  });
  return found == streams_.end() ? nullptr : found->get();
}

FastEvent RcPath::on_completion(const WorkCompletion& completion) {
  RcStream* stream = stream_of(completion.queue_pair);
  ROCECOLL_CHECK(stream != nullptr);
  FastEvent event;
  event.path = this;
  const bool succeeded = completion.status == CompletionStatus::kSuccess;
  switch (completion.kind) {
    case WorkCompletion::Kind::kConnect:
      if (succeeded) stream->on_connected();
      break;
    case WorkCompletion::Kind::kSend:
      stream->on_sent(completion);
      break;
    case WorkCompletion::Kind::kReceive:
    case WorkCompletion::Kind::kReceiveImmediate:
      if (succeeded) {
        on_receive(*stream, completion, event);
        return event;
      }
      device_.receives().on_failed(completion.id);
  }
  if (!succeeded && !stream->failed()) {
    event.kind = FastEvent::Kind::kFailed;
    event.text = completion.text;
  }
  return event;
}

void RcPath::on_receive(RcStream& stream, const WorkCompletion& completion, FastEvent& event) {
  TransportStats& stats = device_.own_stats();
  ReceivePool& receives = device_.receives();
  ++stats.packets_received;
  ++traffic_.packets_received;
  if (completion.kind == WorkCompletion::Kind::kReceiveImmediate) {
    receives.repost(completion.id);
    stream.on_reposted(/*bare=*/false);
    stream.count_received();
    on_part_landed(completion.immediate, event);
    return;
  }
  stats.bytes_received += completion.bytes;
  traffic_.bytes_received += completion.bytes;
  const auto bytes = receives.received(completion.id, completion.bytes);
  const auto header = StreamHeader::Parse(bytes);
  const bool frame = header && header->kind == StreamHeader::Kind::kFrame;
  const bool in_order = !frame || header->number == static_cast<uint32_t>(stream.next_received());
  if (!header || !in_order) {
    receives.repost(completion.id);
    event.kind = FastEvent::Kind::kFailed;
    event.text = "a malformed message arrived";
    return;
  }
  stream.on_credits(*header);
  if (frame) {
    stream.count_received();
    event.kind = FastEvent::Kind::kFrame;
    event.frame = bytes.subspan(StreamHeader::kWireBytes);
    event.lease = {completion.id, completion.queue_pair};
    return;
  }
  receives.repost(completion.id);
  if (header->kind != StreamHeader::Kind::kProbe) stream.on_reposted(/*bare=*/true);
  if (header->kind == StreamHeader::Kind::kHeartbeat) event.kind = FastEvent::Kind::kHeartbeat;
}

void RcPath::on_reposted(uint32_t queue_pair) {
  RcStream* stream = stream_of(queue_pair);
  if (stream != nullptr && !stream->failed()) stream->on_reposted(/*bare=*/false);
}

void RcPath::on_part_landed(uint32_t number, FastEvent& event) {
  event.number = number;
  const auto found = exposures_.find(number);
  if (found == exposures_.end()) {
    event.kind = FastEvent::Kind::kStray;
    return;
  }
  Exposure& exposure = found->second;
  if (++exposure.parts_landed < PartCount(exposure.into.size, streams_.size())) return;
  device_.own_stats().bytes_received += exposure.into.size;
  traffic_.bytes_received += exposure.into.size;
  device_.registered_memory().land(exposure.lease, exposure.into);
  device_.registered_memory().give_back(exposure.lease);
  exposures_.erase(found);
  event.kind = FastEvent::Kind::kLanded;
}

}  // namespace rocecoll
