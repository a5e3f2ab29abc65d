// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/sim_transport.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace rocecoll {

TransportLimits SimTransport::limits() const {
  const SimFabricOptions& options = fabric_.options();
  return {.max_frame_bytes = options.max_frame_bytes,
          .preferred_eager_bytes = options.preferred_eager_bytes,
          .max_write_bytes = options.max_write_bytes,
          .messages_in_flight = options.messages_in_flight,
          .overlapping_lanes = options.overlapping_lanes};
}

Address SimTransport::address() const {
  std::array<std::byte, sizeof(uint32_t)> bytes;
  StoreLe(bytes.data(), endpoint_);
  return Address(bytes, "sim:" + std::to_string(endpoint_));
}

Result<uint32_t> SimTransport::endpoint_of(const Address& address) const {
  ByteReader reader(address.bytes());
  const uint32_t endpoint = reader.Read<uint32_t>();
  if (!reader.ok() || reader.remaining() > 0 || endpoint >= fabric_.size()) {
    return Status(StatusCode::kInvalidArgument, "not an address of the simulator");
  }
  return endpoint;
}

Result<Link*> SimTransport::open(const LinkId& id, const Address& peer, Duration connect_timeout,
                                 Instant) {
  const Result<uint32_t> peer_endpoint = endpoint_of(peer);
  if (!peer_endpoint.ok()) return peer_endpoint.status();
  if (links_.contains(id)) return Status(StatusCode::kInvalidArgument, "the link is open already");
  const auto link = std::make_shared<SimLink>(*this, id, peer_endpoint.value());
  links_.emplace(id, link);
  after_latency(peer_endpoint.value(), [link](SimTransport& at_peer) { at_peer.on_open(link); });
  fabric_.queue().schedule(fabric_.now() + connect_timeout, [weak = std::weak_ptr(link)] {
    const auto link = weak.lock();
    if (link && !link->established_) link->go_down(Status(StatusCode::kTimeout, "no answer"));
  });
  if (!fabric_.alive(peer_endpoint.value())) {
    fabric_.queue().schedule(fabric_.now() + fabric_.options().detection_delay, [link] {
      link->go_down(Status(StatusCode::kPeerLost, "the peer does not answer"));
    });
  }
  if (const auto early = early_.find(id); early != early_.end()) {
    if (early->second.peer) link->establish(early->second.peer);
    if (!early->second.down.ok()) link->go_down(early->second.down);
    early_.erase(early);
  }
  return static_cast<Link*>(link.get());
}

void SimTransport::on_open(const std::shared_ptr<SimLink>& peer) {
  const LinkId id = peer->id().mirrored();
  const auto link = links_.find(id);
  if (link == links_.end()) {
    early_[id].peer = peer;
    Event event;
    event.kind = Event::Kind::kIncoming;
    event.incoming = id;
    push(nullptr, event, {});
  } else {
    const auto keep = link->second;  // a goodbye may end the link during the call
    keep->establish(peer);
  }
}

void SimTransport::send_abort(const LinkId& id, uint32_t peer_endpoint, const Status& why) {
  after_latency(peer_endpoint,
                [id, why](SimTransport& at_peer) { at_peer.on_abort(id.mirrored(), why); });
}

void SimTransport::on_abort(const LinkId& id, const Status& why) {
  const auto link = links_.find(id);
  if (link == links_.end()) {
    early_[id].down = why;
  } else {
    const auto keep = link->second;
    keep->go_down(why);
  }
}

void SimTransport::on_endpoint_dead(uint32_t endpoint) {
  if (!alive()) return;
  std::vector<std::shared_ptr<SimLink>> lost;
  for (const auto& [id, link] : links_) {
    if (link->peer_endpoint_ == endpoint) lost.push_back(link);
  }
  for (const auto& link : lost) {
    link->go_down(Status(StatusCode::kPeerLost, "the peer stopped answering"));
  }
}

void SimTransport::after_latency(uint32_t peer_endpoint,
                                 std::function<void(SimTransport&)> at_peer) {
  fabric_.queue().schedule(fabric_.now() + fabric_.options().latency,
                           [this, peer_endpoint, at_peer = std::move(at_peer)] {
                             if (!alive() || !fabric_.alive(peer_endpoint)) return;
                             at_peer(fabric_.transport(peer_endpoint));
                           });
}

void SimTransport::forget(const LinkId& id) { links_.erase(id); }

void SimTransport::notify(const Address& peer, std::span<const std::byte> notice) {
  ROCECOLL_CHECK(notice.size() <= kMaxNoticeBytes);
  const Result<uint32_t> peer_endpoint = endpoint_of(peer);
  if (!peer_endpoint.ok()) return;  // best effort
  std::vector<std::byte> copy(notice.begin(), notice.end());
  after_latency(peer_endpoint.value(), [copy = std::move(copy)](SimTransport& at_peer) {
    Event event;
    event.kind = Event::Kind::kNotice;
    at_peer.push(nullptr, event, copy);
  });
}

void SimTransport::push(std::shared_ptr<SimLink> link, const Event& event,
                        std::vector<std::byte> frame, std::shared_ptr<SimLink> sender) {
  pending_.push_back(Pending{event, std::move(link), std::move(frame), std::move(sender)});
  fabric_.mark_ready(endpoint_);
}

size_t SimTransport::poll(Instant now, std::span<Event> events) {
  if (now > fabric_.now()) fabric_.queue().run_until(now);
  lent_.clear();
  if (!alive()) return 0;
  while (lent_.size() < events.size() && !pending_.empty()) {
    Pending next = std::move(pending_.front());
    pending_.pop_front();
    if (next.sender)
      std::exchange(next.sender, nullptr)->leave_queue(SimLink::Transfer::Kind::kFrame);
    if (next.link && next.link->closed_) continue;
    if (next.event.kind == Event::Kind::kDown) next.link->reported_ = next.link->down_;
    lent_.push_back(std::move(next));
    const Pending& lent = lent_.back();
    Event& event = events[lent_.size() - 1];
    event = lent.event;
    event.link = lent.link.get();
    event.frame = lent.frame;
  }
  if (!pending_.empty()) fabric_.mark_ready(endpoint_);
  return lent_.size();
}

bool SimTransport::lingering() const {
  if (!alive()) return false;
  return std::any_of(links_.begin(), links_.end(), [this](const auto& entry) {
    const SimLink& link = *entry.second;
    // The goodbye itself is not worth waiting for.
    return link.closed_ && link.queued_frames_ > 1 && fabric_.alive(link.peer_endpoint_);
  });
}

Instant SimTransport::next_deadline() const { return pending_.empty() ? kNever : fabric_.now(); }

}  // namespace rocecoll
