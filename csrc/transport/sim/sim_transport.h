// SPDX-License-Identifier: Apache-2.0
// A Transport over the link-level simulator. Frames of a link arrive in order. A write is copied
// from its source into the exposed slice at the instant when its last byte arrives, so that memory
// that changes while it is lent shows up as wrong results. Silent peers cost nothing, because links
// exist only once they are opened.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "transport/plain_memory.h"
#include "transport/sim/sim_fabric.h"
#include "transport/sim/sim_link.h"
#include "transport/transport.h"

namespace rocecoll {

class SimTransport final : public Transport {
 public:
  SimTransport(SimFabric& fabric, uint32_t endpoint) : fabric_(fabric), endpoint_(endpoint) {}

  TransportLimits limits() const override;
  Address address() const override;
  MemoryDomain& memory() override { return memory_; }
  TransportStats stats() const override { return stats_; }
  Result<Link*> open(const LinkId& id, const Address& peer, Duration connect_timeout,
                     Instant now) override;
  void notify(const Address& peer, std::span<const std::byte> notice) override;
  size_t poll(Instant now, std::span<Event> events) override;
  void transmit(Instant /*now*/) override {}  // nothing waits to be transmitted
  bool lingering() const override;
  // The driver of the fabric knows what else will happen (RunUntil).
  Instant next_deadline() const override;
  WaitHandle wait_handle() override { return WaitHandle{}; }

  uint32_t endpoint() const { return endpoint_; }

 private:
  friend class SimFabric;
  friend class SimLink;

  struct Pending {
    Event event;
    std::shared_ptr<SimLink> link;  // null for notices
    std::vector<std::byte> frame;
    // The sender of a frame, which takes room in its queue until polled.
    std::shared_ptr<SimLink> sender;
  };
  // What the peer did before our side of the link was opened.
  struct Early {
    std::shared_ptr<SimLink> peer;
    Status down;
  };

  bool alive() const { return fabric_.alive(endpoint_); }
  void push(std::shared_ptr<SimLink> link, const Event& event, std::vector<std::byte> frame,
            std::shared_ptr<SimLink> sender = nullptr);
  void on_open(const std::shared_ptr<SimLink>& peer);
  void on_endpoint_dead(uint32_t endpoint);
  void send_abort(const LinkId& id, uint32_t peer_endpoint, const Status& why);
  void on_abort(const LinkId& id, const Status& why);
  void forget(const LinkId& id);
  // Schedules how the peer reacts to our message, one latency from now, if both live then.
  void after_latency(uint32_t peer_endpoint, std::function<void(SimTransport&)> at_peer);
  Result<uint32_t> endpoint_of(const Address& address) const;

  SimFabric& fabric_;
  const uint32_t endpoint_;
  PlainMemoryDomain memory_;
  TransportStats stats_;
  std::unordered_map<LinkId, std::shared_ptr<SimLink>, LinkIdHash> links_;
  std::unordered_map<LinkId, Early, LinkIdHash> early_;
  std::deque<Pending> pending_;
  std::vector<Pending> lent_;  // the events that the last poll() reported
};

}  // namespace rocecoll
