// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "transport/port.h"
#include "transport/sim/sim_network.h"

namespace rocecoll {

// The address of endpoint `endpoint` in any simulated network.
Address SimAddress(uint32_t endpoint);

// A port of a simulated network. Destroying it stands for the death of its process.
class SimPort final : public DatagramPort {
 public:
  SimPort(SimNetwork& network, uint32_t endpoint, const SimPortOptions& options);
  ~SimPort() override;
  SimPort(const SimPort&) = delete;
  SimPort& operator=(const SimPort&) = delete;

  uint32_t endpoint() const { return endpoint_; }
  size_t leased() const { return leases_.size() - free_leases_.size(); }
  // From now on each send() accepts at most `count` datagrams, as if the socket buffer were full.
  void set_send_room(size_t count) { send_room_ = count; }
  // Whether datagrams for `endpoint` are refused from now on, and so lost, as by a full queue of
  // the device on the way to it.
  void set_refused(uint32_t endpoint, bool refused) {
    if (refused) refused_.insert(endpoint);
    if (!refused) refused_.erase(endpoint);
  }
  // Sets what peer_limit() returns for `endpoint` from now on, within limits(): the MTU of its
  // route.
  void set_peer_limit(uint32_t endpoint, size_t bytes) { peer_limits_[endpoint] = bytes; }
  // How long it takes from now on to find the way to a peer. Without this call, every way is known
  // at once.
  void set_way_time(Duration time) { way_time_ = time; }
  // From now on the way to `endpoint` leads nowhere, until another one is looked for.
  void move(uint32_t endpoint) { ways_[endpoint] = {false, kNever}; }
  void set_health(Status health) { health_ = std::move(health); }
  // Sets what clock() returns from now on, to let time pass while a call is served.
  void set_clock(std::function<Instant(Instant)> clock) { clock_ = std::move(clock); }

  PortLimits limits() const override;
  Address address() const override { return SimAddress(endpoint_); }
  Result<PeerHandle> add_peer(const Address& address) override;
  void remove_peer(PeerHandle) override {}  // handles are the numbers of endpoints
  size_t peer_limit(PeerHandle peer) const override;
  void renew_way(PeerHandle peer) override;
  bool seeks_way(PeerHandle peer) const override;
  bool checks_payload(PeerHandle /*peer*/) const override { return options_.checks_payload; }
  size_t send(std::span<const TxDatagram> batch) override;
  bool send_to(const Address& address, std::span<const std::byte> datagram) override;
  size_t receive(std::span<RxDatagram> batch) override;
  Instant clock(Instant told) const override { return clock_ ? clock_(told) : told; }
  void release(std::span<const RxDatagram> batch) override;
  bool poll_unreachable(UnreachableHint& hint) override;
  void flush() override {}
  WaitHandle wait_handle() override { return {}; }
  Status health() override { return health_; }

 private:
  friend class SimNetwork;
  struct Arrival {
    std::shared_ptr<std::vector<std::byte>> bytes;
    Address from;
    Instant at;
    bool marked = false;
  };

  struct Way {
    bool known = false;
    Instant found_at = kNever;  // when the search for a way ends; kNever without one
  };

  bool knows_way(uint32_t endpoint);
  bool accept(uint32_t from, std::shared_ptr<std::vector<std::byte>> bytes, bool marked);
  void report(uint32_t endpoint, Obstacle obstacle);

  SimNetwork& network_;
  const uint32_t endpoint_;
  const SimPortOptions options_;
  std::deque<Arrival> arrivals_;
  size_t waiting_bytes_ = 0;    // sum over arrivals_
  std::deque<Arrival> leases_;  // a deque, so that addresses of elements stay valid as it grows
  std::vector<uint32_t> free_leases_;
  std::deque<UnreachableHint> unreachable_;
  std::map<uint32_t, size_t> peer_limits_;  // only those below the largest
  Duration way_time_{0};
  std::map<uint32_t, Way> ways_;  // only those that are not known at once
  size_t send_room_ = SIZE_MAX;
  std::set<uint32_t> refused_;
  Status health_;
  std::function<Instant(Instant)> clock_;
};

}  // namespace rocecoll
