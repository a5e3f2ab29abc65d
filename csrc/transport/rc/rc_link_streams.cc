// SPDX-License-Identifier: Apache-2.0
// What an RC link sends and receives over its queue pairs.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "transport/rc/rc_link.h"

namespace rocecoll {

RcStream* RcLink::stream_of(uint32_t queue_pair) {
  const auto found = std::ranges::find_if(streams_, [queue_pair](const auto& stream) {
    return stream->prepared() && stream->number() == queue_pair;
  });
  return found == streams_.end() ? nullptr : found->get();
}

bool RcLink::drained() const {
  return std::ranges::all_of(streams_, [](const auto& stream) { return stream->drained(); });
}

void RcLink::destroy_queue_pairs() {
  for (const auto& stream : streams_) {
    if (!stream->prepared()) continue;
    context_.by_queue_pair.erase(stream->number());
    stream->destroy();
  }
}

void RcLink::distribute_writes() {
  for (; !new_writes_.empty(); new_writes_.pop_front()) {
    RcWrite& write = *writes_.at(new_writes_.front());
    const size_t size = write.from.size;
    const size_t parts = PartCount(size, streams_.size());
    write.parts_left = parts;
    for (size_t i = 0; i < parts; ++i) {
      const size_t begin = PartBegin(size, parts, i);
      RcStream& stream = *streams_[(write.id + i) % streams_.size()];
      stream.push_part(write, begin, PartBegin(size, parts, i + 1) - begin);
    }
  }
}

void RcLink::pump_streams() {
  while (!waiting_frames_.empty() && streams_.front()->push_frame(waiting_frames_.front())) {
    waiting_frames_.pop_front();
  }
  distribute_writes();
  for (const auto& stream : streams_) {
    const Status status = stream->pump();
    if (status.ok()) continue;
    on_stream_failure(status.message());
    return;
  }
}

void RcLink::take_written(RcStream& stream) {
  for (const RcWrite* write : stream.take_done()) {
    const auto found = writes_.find(write->id);
    ROCECOLL_CHECK(found != writes_.end());
    context_.memory->give_back(found->second->lease);
    emit(Event::Kind::kWritten, found->second->token);
    writes_.erase(found);
  }
}

void RcLink::on_completion(const WorkCompletion& completion) {
  RcStream* stream = stream_of(completion.queue_pair);
  ROCECOLL_CHECK(stream != nullptr);
  mark_dirty();
  const bool succeeded = completion.status == CompletionStatus::kSuccess;
  if (completion.kind != WorkCompletion::Kind::kSend && succeeded) {
    on_receive(*stream, completion);
    return;
  }
  if (completion.kind == WorkCompletion::Kind::kSend) stream->on_sent(completion);
  if (!succeeded && !stream->failed()) {
    on_stream_failure(completion.text);
  } else if (phase_ == Phase::kDraining) {
    continue_draining();
  } else if (phase_ == Phase::kProving) {
    on_proved();
  } else if (phase_ == Phase::kRoce) {
    take_written(*stream);
  }
}

void RcLink::on_receive(RcStream& stream, const WorkCompletion& completion) {
  ++context_.stats.packets_received;
  if (completion.kind == WorkCompletion::Kind::kReceiveImmediate) {
    context_.receives->repost(completion.id);
    stream.on_reposted(/*bare=*/false);
    stream.count_received();
    on_part_landed(completion.immediate);
    return;
  }
  context_.stats.bytes_received += completion.bytes;
  const auto bytes = context_.receives->received(completion.id, completion.bytes);
  const auto header = StreamHeader::Parse(bytes);
  const bool frame = header && header->kind == StreamHeader::Kind::kFrame;
  const bool in_order = !frame || header->number == static_cast<uint32_t>(stream.next_received());
  if (!header || !in_order) {
    context_.receives->repost(completion.id);
    on_stream_failure("a malformed message arrived");
    return;
  }
  stream.on_credits(*header);
  if (frame) stream.count_received();
  if (!frame || closed_ || phase_ == Phase::kDown) {
    context_.receives->repost(completion.id);
    if (header->kind != StreamHeader::Kind::kProbe) stream.on_reposted(/*bare=*/!frame);
  } else {
    const auto payload = bytes.subspan(StreamHeader::kWireBytes);
    context_.events.push_back(
        {{Event::Kind::kFrame, this, 0, payload, {}}, completion.id, completion.queue_pair});
  }
  if (held_down_ && streams_.front()->next_received() >= *goodbye_) on_timer();
}

void RcLink::on_reposted(uint32_t queue_pair) {
  RcStream* stream = stream_of(queue_pair);
  if (stream == nullptr || stream->failed()) return;
  stream->on_reposted(/*bare=*/false);
  mark_dirty();
}

void RcLink::on_part_landed(uint32_t number) {
  const auto found = exposures_.find(number);
  if (found == exposures_.end()) {  // taken back by close()
    if (!closed_ && phase_ != Phase::kDown) {
      on_stream_failure("a write into a slice that is not exposed arrived");
    }
    return;
  }
  Exposure& exposure = found->second;
  if (++exposure.parts_landed < PartCount(exposure.into.size, streams_.size())) return;
  context_.stats.bytes_received += exposure.into.size;
  context_.memory->land(exposure.lease, exposure.into);
  context_.memory->give_back(exposure.lease);
  emit(Event::Kind::kLanded, exposure.token);
  exposures_.erase(found);
}

}  // namespace rocecoll
