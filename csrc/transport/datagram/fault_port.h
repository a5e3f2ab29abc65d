// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "transport/datagram/fault_options.h"
#include "transport/port.h"

namespace rocecoll {

struct FaultCounts {
  uint64_t datagrams = 0;  // passed to the port
  uint64_t lost = 0;       // on purpose
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t corrupted = 0;
  uint64_t overflowed = 0;  // lost because too many are delayed
};

// Applies FaultOptions to each datagram that is sent through another port; received ones pass
// unchanged. Lent payloads are never altered, only copies of them.
class FaultPort final : public DatagramPort {
 public:
  using Clock = std::function<Instant()>;
  FaultPort(std::unique_ptr<DatagramPort> inner, const FaultOptions& options, Clock clock);

  const FaultCounts& counts() const { return counts_; }

  PortLimits limits() const override { return inner_->limits(); }
  Address address() const override { return inner_->address(); }
  Result<PeerHandle> add_peer(const Address& address) override { return inner_->add_peer(address); }
  void remove_peer(PeerHandle peer) override;
  size_t peer_limit(PeerHandle peer) const override { return inner_->peer_limit(peer); }
  void look_at_route(PeerHandle peer) override { inner_->look_at_route(peer); }
  void renew_way(PeerHandle peer) override { inner_->renew_way(peer); }
  bool seeks_way(PeerHandle peer) const override { return inner_->seeks_way(peer); }
  size_t guaranteed_bytes(const Address& peer) const override {
    return inner_->guaranteed_bytes(peer);
  }
  // Takes the whole batch: datagrams that the inner port has no room for wait among the delayed
  // ones.
  size_t send(std::span<const TxDatagram> batch) override;
  // Such datagrams are only lost, as often as others.
  bool send_to(const Address& address, std::span<const std::byte> datagram) override;
  size_t receive(std::span<RxDatagram> batch) override;
  Instant clock(Instant told) const override { return inner_->clock(told); }
  void release(std::span<const RxDatagram> batch) override { inner_->release(batch); }
  bool poll_unreachable(UnreachableHint& hint) override { return inner_->poll_unreachable(hint); }
  void flush() override { inner_->flush(); }
  WaitHandle wait_handle() override { return inner_->wait_handle(); }
  bool arm() override { return inner_->arm(); }
  Status health() override { return inner_->health(); }
  Instant next_deadline() const override;

 private:
  // A copy that goes out at its time or, if reordered, when enough others have gone out.
  struct Held {
    PeerHandle to;
    std::vector<std::byte> bytes;
    uint64_t after_sent = 0;  // value of sent_ that frees it early
  };

  // Decides what happens to one copy of a datagram.
  void dispatch(Instant now, const TxDatagram& datagram);
  // Holds a copy, which the caller may alter; null if too many are held.
  Held* hold(const TxDatagram& datagram, Instant due, uint64_t after_sent);
  void pass_on(Instant now);
  void send_due(Instant now);

  const std::unique_ptr<DatagramPort> inner_;
  const FaultOptions options_;
  const Clock clock_;
  Random random_;
  FaultCounts counts_;
  std::vector<TxDatagram> passing_;    // to be sent unchanged within this send()
  std::multimap<Instant, Held> held_;  // by the time they are due
  uint64_t sent_ = 0;
};

}  // namespace rocecoll
