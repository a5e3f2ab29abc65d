// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/sim_port.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"

namespace rocecoll {
namespace {

constexpr std::byte kSimFamily{0xf5};  // first byte of our addresses, unlike any real family
constexpr size_t kPortAddressBytes = 5;
constexpr size_t kMaxHints = 64;

}  // namespace

Address SimAddress(uint32_t endpoint) {
  std::array<std::byte, kPortAddressBytes> bytes;
  bytes[0] = kSimFamily;
  StoreLe(bytes.data() + 1, endpoint);
  return Address(bytes, "sim:" + std::to_string(endpoint));
}

SimPort::SimPort(SimNetwork& network, uint32_t endpoint, const SimPortOptions& options)
    : network_(network), endpoint_(endpoint), options_(options) {}

SimPort::~SimPort() { network_.detach(endpoint_); }

PortLimits SimPort::limits() const {
  PortLimits limits;
  limits.max_datagram_bytes = options_.max_datagram_bytes;
  limits.min_datagram_bytes =
      options_.min_datagram_bytes == 0 ? options_.max_datagram_bytes : options_.min_datagram_bytes;
  limits.guaranteed_datagram_bytes = limits.min_datagram_bytes;
  limits.max_burst = options_.max_burst;
  limits.receive_buffer_bytes = options_.receive_buffer_bytes;
  return limits;
}

Result<PeerHandle> SimPort::add_peer(const Address& address) {
  const auto bytes = address.bytes();
  if (bytes.size() != kPortAddressBytes || bytes[0] != kSimFamily) {
    return Status(StatusCode::kInvalidArgument,
                  "not an address of a simulated network: " + address.text());
  }
  const PeerHandle peer{LoadLe<uint32_t>(bytes.data() + 1)};
  if (way_time_ > Duration{0}) ways_.try_emplace(peer.index, false, network_.now() + way_time_);
  return peer;
}

void SimPort::renew_way(PeerHandle peer) {
  if (seeks_way(peer)) return;
  const auto [way, added] = ways_.try_emplace(peer.index, true, kNever);
  way->second.known = knows_way(peer.index);
  way->second.found_at = network_.now() + way_time_;
}

bool SimPort::seeks_way(PeerHandle peer) const {
  const auto way = ways_.find(peer.index);
  return way != ways_.end() && way->second.found_at != kNever &&
         network_.now() < way->second.found_at;
}

bool SimPort::knows_way(uint32_t endpoint) {
  const auto way = ways_.find(endpoint);
  if (way == ways_.end()) return true;
  if (network_.now() >= way->second.found_at) way->second = {true, kNever};
  return way->second.known;
}

size_t SimPort::peer_limit(PeerHandle peer) const {
  const auto found = peer_limits_.find(peer.index);
  if (found == peer_limits_.end()) return options_.max_datagram_bytes;
  return std::clamp(found->second, limits().min_datagram_bytes, options_.max_datagram_bytes);
}

size_t SimPort::send(std::span<const TxDatagram> batch) {
  const size_t count = std::min(batch.size(), send_room_);
  uint32_t run_to = UINT32_MAX;
  size_t segment = 0;  // segment size of the run that the next datagram may belong to
  for (const TxDatagram& datagram : batch.first(count)) {
    const size_t size = datagram.header.size() + datagram.payload.size();
    ROCECOLL_CHECK(size <= options_.max_datagram_bytes);
    const bool may_join = options_.segments && !datagram.alone;
    if (!may_join || datagram.to.index != run_to || size > segment) segment = size;
    // A shorter datagram is the last of its run.
    run_to = may_join && size == segment ? datagram.to.index : UINT32_MAX;
    if (datagram.to.index >= network_.endpoints()) continue;  // no such host: sent and lost
    if (refused_.contains(datagram.to.index)) continue;
    if (!knows_way(datagram.to.index)) continue;
    network_.transmit(endpoint_, datagram.to.index, datagram.header, datagram.payload, segment);
  }
  return count;
}

bool SimPort::send_to(const Address& address, std::span<const std::byte> datagram) {
  const Result<PeerHandle> to = add_peer(address);
  const TxDatagram sent{to.ok() ? to.value() : PeerHandle{UINT32_MAX}, datagram, {}};
  return send({&sent, 1}) == 1;
}

bool SimPort::accept(uint32_t from, std::shared_ptr<std::vector<std::byte>> bytes, bool marked) {
  if (waiting_bytes_ + bytes->size() > options_.receive_buffer_bytes) return false;
  waiting_bytes_ += bytes->size();
  arrivals_.push_back({std::move(bytes), SimAddress(from), network_.now(), marked});
  return true;
}

size_t SimPort::receive(std::span<RxDatagram> batch) {
  size_t count = 0;
  for (; count < batch.size() && !arrivals_.empty(); ++count) {
    uint32_t lease = static_cast<uint32_t>(leases_.size());
    if (free_leases_.empty()) {
      leases_.emplace_back();
    } else {
      lease = free_leases_.back();
      free_leases_.pop_back();
    }
    leases_[lease] = std::move(arrivals_.front());
    arrivals_.pop_front();
    waiting_bytes_ -= leases_[lease].bytes->size();
    const Arrival& leased = leases_[lease];
    batch[count] = {*leased.bytes, &leased.from, lease, leased.at, leased.marked};
  }
  return count;
}

void SimPort::release(std::span<const RxDatagram> batch) {
  for (const RxDatagram& datagram : batch) {
    ROCECOLL_CHECK(leases_[datagram.lease].bytes != nullptr);
    leases_[datagram.lease].bytes.reset();
    free_leases_.push_back(datagram.lease);
  }
}

void SimPort::report(uint32_t endpoint, Obstacle obstacle) {
  if (unreachable_.size() == kMaxHints) unreachable_.pop_front();
  unreachable_.push_back({{endpoint}, obstacle});
}

bool SimPort::poll_unreachable(UnreachableHint& hint) {
  if (unreachable_.empty()) return false;
  hint = unreachable_.front();
  unreachable_.pop_front();
  return true;
}

}  // namespace rocecoll
