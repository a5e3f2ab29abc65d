// SPDX-License-Identifier: Apache-2.0
#include "messenger/messenger.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "messenger/messenger_core.h"
#include "messenger/peer_channel.h"

namespace rocecoll {
namespace {

// A posted message that has waited this long is announced to the peer, which reveals a mismatch in
// which both wait for each other. Long compared with a round trip and a loss, short for a person.
constexpr Duration kAnnounceAfter = std::chrono::milliseconds(100);

}  // namespace

struct Messenger::Impl {
  // The whole group has the limits of its worst pair, so that all of its ranks agree without
  // talking. This rank's own address is among them, but as it is on this host, no other limit is
  // better.
  Impl(Transport& transport, const GroupKey& group, Rank self,
       const SharedVector<Address>& addresses, const MessengerOptions& options)
      : core(transport, group, self, addresses, options,
             transport.limits_towards(addresses.items())) {
    ROCECOLL_CHECK(self < core.addresses.size());
    ROCECOLL_CHECK(core.limits.max_write_bytes > 0);
    channels.resize(core.addresses.size());
  }

  PeerChannel& channel(Rank peer) {
    ROCECOLL_CHECK(peer < channels.size() && peer != core.self);
    auto& channel = channels[peer];
    if (!channel) channel = std::make_unique<PeerChannel>(core, peer);
    return *channel;
  }
  void close_links(const Status& why) {
    for (const auto& channel : channels) {
      if (channel) channel->close(why);
    }
  }
  bool stopped() const { return closed || core.failed(); }

  MessengerCore core;
  std::vector<std::unique_ptr<PeerChannel>> channels;  // by rank, made on first use
  std::vector<PeerChannel*> flushing;
  size_t next_completion = 0;
  bool closed = false;
};

Messenger::Messenger(Transport& transport, const GroupKey& group, Rank self,
                     const SharedVector<Address>& addresses, const MessengerOptions& options)
    : impl_(std::make_unique<Impl>(transport, group, self, addresses, options)) {}

Messenger::~Messenger() {
  impl_->close_links(impl_->core.failed() ? impl_->core.failure->status : Status());
}

EagerLimit Messenger::eager_limit() const {
  return {impl_->core.eager.bytes, impl_->core.limits.eager_pieces};
}

const TransportLimits& Messenger::limits() const { return impl_->core.limits; }

void Messenger::send(Instant now, Rank to, const Tag& tag, const Fingerprint& fingerprint,
                     LocalSlice from, uint64_t token) {
  if (!impl_->stopped()) impl_->channel(to).send(now, tag, fingerprint, from, token);
}

void Messenger::recv(Instant now, Rank from, const Tag& tag, const Fingerprint& fingerprint,
                     LocalSlice into, uint64_t token) {
  if (!impl_->stopped()) impl_->channel(from).recv(now, tag, fingerprint, into, token);
}

void Messenger::listen(Instant now) {
  for (Rank peer = 0; peer < impl_->channels.size() && !impl_->stopped(); ++peer) {
    if (peer != impl_->core.self) impl_->channel(peer).listen(now);
  }
}

uint64_t Messenger::arrivals() const { return impl_->core.arrivals; }

std::optional<uint64_t> Messenger::arrival(Rank from, const Tag& tag) const {
  const Message* kept = impl_->core.messages.find(MessageRole::kUnexpected, from, tag);
  return kept == nullptr ? std::nullopt : std::optional(kept->arrival);
}

std::vector<Announcement> Messenger::take_announcements() {
  return std::exchange(impl_->core.announcements, {});
}

bool Messenger::send_retire(Rank to, bool answer, std::span<const TagRun> runs) {
  return impl_->stopped() || impl_->channel(to).send_retire(answer, runs);
}

std::vector<RetireWord> Messenger::take_retire_words() {
  return std::exchange(impl_->core.retire_words, {});
}

bool Messenger::connected(Rank peer) const {
  const auto& channel = impl_->channels[peer];
  return channel && channel->link() != nullptr;
}

bool Messenger::has_left(Rank to, uint64_t frame) const {
  const auto& channel = impl_->channels[to];
  return !channel || channel->has_left(frame);
}

const std::vector<MessengerFailure>& Messenger::lost() const { return impl_->core.lost; }

uint32_t Messenger::peers_left() const { return impl_->core.peers_left; }

void Messenger::accept(Instant now, Rank peer) {
  if (!impl_->stopped()) impl_->channel(peer).accept(now);
}

void Messenger::on_left(Rank peer) {
  if (!impl_->stopped() && impl_->channels[peer]) impl_->channels[peer]->on_left();
}

bool Messenger::on_event(Instant, const Event& event) {
  const auto found = impl_->core.channels_by_link.find(event.link);
  if (found == impl_->core.channels_by_link.end()) return false;
  PeerChannel& channel = *found->second;
  if (event.kind == Event::Kind::kDown) {
    channel.on_down();
    return true;
  }
  if (impl_->stopped()) return true;
  switch (event.kind) {
    case Event::Kind::kFrame:
      channel.on_frame(event.frame);
      break;
    case Event::Kind::kWritten:
      channel.on_written(event.token);
      break;
    case Event::Kind::kLanded:
      channel.on_landed(event.token);
      break;
    case Event::Kind::kDown:
    case Event::Kind::kNotice:
    case Event::Kind::kIncoming:
      break;
  }
  return true;
}

void Messenger::flush(Instant now) {
  if (impl_->stopped()) return;
  MessengerCore& core = impl_->core;
  while (Message* oldest = core.unannounced.front()) {
    if (now - oldest->posted_at < kAnnounceAfter) break;
    impl_->channel(oldest->peer).announce(*oldest);
  }
  // A channel that still has to wait marks itself as dirty again, for the next flush.
  impl_->flushing.swap(core.dirty);
  for (PeerChannel* channel : impl_->flushing) {
    channel->dirty = false;
    channel->flush();
  }
  impl_->flushing.clear();
}

Instant Messenger::next_deadline() const {
  if (impl_->stopped()) return kNever;
  const Message* oldest = impl_->core.unannounced.front();
  return oldest == nullptr ? kNever : oldest->posted_at + kAnnounceAfter;
}

bool Messenger::poll(MessageCompletion& completion) {
  auto& completions = impl_->core.completions;
  if (impl_->next_completion == completions.size()) {
    completions.clear();
    impl_->next_completion = 0;
    return false;
  }
  completion = completions[impl_->next_completion++];
  return true;
}

const MessengerFailure* Messenger::failure() const {
  return impl_->core.failed() ? &*impl_->core.failure : nullptr;
}

std::vector<Rank> Messenger::waiting_for(const Tag& first_of_operation) const {
  std::vector<Rank> ranks;
  impl_->core.messages.for_each([&](const Message& message) {
    const bool posted = message.role == MessageRole::kSend || message.role == MessageRole::kRecv;
    if (posted && message.tag.operation == first_of_operation.operation) {
      ranks.push_back(message.peer);
    }
  });
  std::ranges::sort(ranks);
  ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
  return ranks;
}

std::vector<AwaitedRank> Messenger::awaited() const {
  std::vector<AwaitedRank> ranks;
  for (const auto& channel : impl_->channels) {
    if (!channel || !channel->waits()) continue;
    if (const auto contact = channel->link()->contact())
      ranks.push_back({channel->peer(), *contact});
  }
  return ranks;
}

std::vector<LinkedRank> Messenger::linked() const {
  std::vector<LinkedRank> ranks;
  for (const auto& channel : impl_->channels) {
    if (!channel || channel->link() == nullptr) continue;
    ranks.push_back({channel->peer(), channel->link()->contact(), channel->link()->path_stats()});
  }
  return ranks;
}

void Messenger::fail(const Status& why) {
  impl_->closed = true;
  impl_->close_links(why);
  impl_->core.completions.clear();
  impl_->next_completion = 0;
}

}  // namespace rocecoll
