// SPDX-License-Identifier: Apache-2.0
// What a link's queue pairs carry: messages out, completions in.
#include <utility>

#include "base/check.h"
#include "transport/fast_paths/rc/rc_device.h"
#include "transport/fast_paths/rc/rc_path.h"

namespace rocecoll {

FastPath::Counts RcPath::received() const {
  Counts counts{};
  for (size_t i = 0; i < streams_.size(); ++i) counts[i] = streams_[i]->next_received();
  return counts;
}

uint64_t RcPath::pushed() const {
  uint64_t all = 0;
  for (const auto& stream : streams_) all += stream->pushed();
  return all;
}

// Frames that the device has been given go out even if this process ends.
uint64_t RcPath::unsent() const {
  uint64_t all = 0;
  for (const auto& stream : streams_) all += stream->unposted_frames();
  return all;
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
  if (rails() != 0) first().send_heartbeat();
}

void RcPath::request_acknowledgement() {
  for (const auto& stream : streams_) stream->request_acknowledgement();
}

void RcPath::push_write(uint32_t number, const RemoteSlice& to, LocalSlice from) {
  const uint64_t age = ++writes_pushed_;
  auto& write = writes_[age];
  write = std::make_unique<RcWrite>();
  write->number = number;
  write->age = age;
  write->oldest = writes_.size() == 1;
  write->to = to;
  write->from = from;
  const size_t parts = PartCount(from.size, streams_.size());
  write->parts_left = parts;
  for (size_t i = 0; i < parts; ++i) {
    const size_t begin = PartBegin(from.size, parts, i);
    stream_for(number + i).push_part(*write, begin, PartBegin(from.size, parts, i + 1) - begin);
  }
}

Status RcPath::pump() {
  device_.flush_receives();
  for (const auto& stream : streams_) {
    if (!stream->prepared()) continue;
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
      const auto found = writes_.find(write->age);
      ROCECOLL_CHECK(found != writes_.end());
      device_.registered_memory().give_back(found->second->lease);
      writes_.erase(found);
    }
  }
  if (!writes_.empty()) writes_.begin()->second->oldest = true;
  if (!numbers.empty()) device_.on_memory_back();
  return numbers;
}

Result<RemoteSlice> RcPath::expose(uint32_t number, LocalSlice into) {
  auto lease = device_.registered_memory().lend_for_write(into, number_);
  if (!lease.ok()) return lease.status();
  const Exposure& exposure = exposures_[number] = {into, lease.take(), 0};
  const auto& keys = exposure.lease.region.of;
  RemoteSlice slice{reinterpret_cast<uint64_t>(exposure.lease.data), into.size,
                    uint64_t{number} << 32 | keys.front().remote_key};
  for (size_t i = 0; i < slice.more_keys.size(); ++i) slice.more_keys[i] = keys[i + 1].remote_key;
  return slice;
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
  for (auto& [age, write] : writes_) device_.registered_memory().give_back(write->lease);
  for (auto& [number, exposure] : exposures_) device_.registered_memory().give_back(exposure.lease);
  writes_.clear();
  exposures_.clear();
  device_.on_memory_back();
}

RcStream* RcPath::stream_of(size_t rail, uint32_t queue_pair) {
  const auto found = std::ranges::find_if(streams_, [rail, queue_pair](const auto& stream) {
    return stream->prepared() && stream->rail() == rail && stream->number() == queue_pair;
  });
  return found == streams_.end() ? nullptr : found->get();
}

FastEvent RcPath::on_completion(size_t rail, const WorkCompletion& completion) {
  RcStream* stream = stream_of(rail, completion.queue_pair);
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
      device_.receives(rail).on_failed(completion.id);
  }
  if (!succeeded && !stream->failed()) {
    leave_out(Rails::Set{1} << rail);
    event.kind = FastEvent::Kind::kFailed;
    event.text = completion.text;
  }
  return event;
}

void RcPath::on_receive(RcStream& stream, const WorkCompletion& completion, FastEvent& event) {
  TransportStats& stats = device_.own_stats();
  ReceivePool& receives = device_.receives(stream.rail());
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
    event.lease = {completion.id, RcDevice::KeyOf(stream)};
    return;
  }
  receives.repost(completion.id);
  if (header->kind != StreamHeader::Kind::kProbe) stream.on_reposted(/*bare=*/true);
  if (header->kind == StreamHeader::Kind::kHeartbeat) event.kind = FastEvent::Kind::kHeartbeat;
}

void RcPath::on_reposted(size_t rail, uint32_t queue_pair) {
  RcStream* stream = stream_of(rail, queue_pair);
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
