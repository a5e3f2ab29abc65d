// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/sim_network.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/crc32c.h"
#include "transport/sim/sim_port.h"

namespace rocecoll {
namespace {

void Note(uint64_t& digest, uint64_t value) {
  digest = (digest ^ value) * 0x100000001b3ull;  // FNV-1a
}

}  // namespace

SimNetwork::SimNetwork(EventQueue& queue, uint64_t seed, const SimWire& wire)
    : queue_(queue), random_(seed), default_wire_(wire), alive_(std::make_shared<bool>(true)) {}

SimNetwork::~SimNetwork() { *alive_ = false; }

std::unique_ptr<SimPort> SimNetwork::add_endpoint(const SimPortOptions& options) {
  const auto endpoint = static_cast<uint32_t>(ports_.size());
  ports_.push_back(nullptr);
  return restart_endpoint(endpoint, options);
}

std::unique_ptr<SimPort> SimNetwork::restart_endpoint(uint32_t endpoint,
                                                      const SimPortOptions& options) {
  ROCECOLL_CHECK(endpoint < ports_.size() && ports_[endpoint] == nullptr);
  auto port = std::make_unique<SimPort>(*this, endpoint, options);
  ports_[endpoint] = port.get();
  return port;
}

SimNetwork::Direction& SimNetwork::direction(uint32_t from, uint32_t to) {
  auto [at, inserted] = directions_.try_emplace({from, to});
  if (inserted) at->second.wire = default_wire_;
  return at->second;
}

SimWire& SimNetwork::wire(uint32_t from, uint32_t to) { return direction(from, to).wire; }

void SimNetwork::set_partition(uint32_t boundary, bool blocked, Obstacle obstacle) {
  for (uint32_t a = 0; a < boundary && a < ports_.size(); ++a) {
    for (uint32_t b = boundary; b < ports_.size(); ++b) {
      for (SimWire* way : {&wire(a, b), &wire(b, a)}) {
        way->blocked = blocked;
        way->obstacle = obstacle;
      }
    }
  }
}

void SimNetwork::transmit(uint32_t from, uint32_t to, std::span<const std::byte> header,
                          std::span<const std::byte> payload, size_t segment_bytes) {
  ++stats_.sent;
  Direction& path = direction(from, to);
  const SimWire& wire = path.wire;
  const Instant now = queue_.now();
  if (wire.blocked || random_.chance(wire.loss)) {
    ++stats_.dropped;
    const bool reports = wire.blocked && wire.obstacle != Obstacle::kNone;
    if (reports && ports_[from] != nullptr) ports_[from]->report(to, wire.obstacle);
    return;
  }
  const size_t size = header.size() + payload.size();
  if (wire.mtu_bytes > 0 && segment_bytes > wire.mtu_bytes) {
    ++stats_.dropped;
    if (wire.mtu_reported && ports_[from] != nullptr) {
      ports_[from]->set_peer_limit(to, wire.mtu_bytes);
    }
    return;
  }
  Instant serialized = now;
  bool marked = false;
  if (wire.bottleneck != nullptr) {
    const auto passage = wire.bottleneck->admit(from, now, size);
    if (!passage) {
      ++stats_.dropped;
      return;
    }
    serialized = passage->left_at;
    marked = passage->marked;
  } else if (wire.bytes_per_second > 0) {
    const Instant start = std::max(path.free_at, now);
    if (Seconds(start - now) * wire.bytes_per_second > static_cast<double>(wire.queue_bytes)) {
      ++stats_.dropped;
      return;
    }
    serialized = start + FromSeconds(static_cast<double>(size) / wire.bytes_per_second);
    path.free_at = serialized;
  }
  auto bytes = std::make_shared<std::vector<std::byte>>(header.begin(), header.end());
  bytes->insert(bytes->end(), payload.begin(), payload.end());
  if (random_.chance(wire.duplicate)) carry(from, to, wire, serialized, {bytes, marked});
  if (size > 0 && random_.chance(wire.corrupt)) {
    bytes = std::make_shared<std::vector<std::byte>>(*bytes);  // the duplicate stays intact
    const uint64_t bit = random_.below(size * 8);
    (*bytes)[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    const SimPort* port = ports_[to];
    if (port != nullptr && port->checks_payload({})) {
      ++stats_.dropped;
      return;
    }
  }
  carry(from, to, wire, serialized, {std::move(bytes), marked});
}

void SimNetwork::carry(uint32_t from, uint32_t to, const SimWire& wire, Instant serialized,
                       Datagram datagram) {
  Instant arrival = serialized + wire.latency;
  if (random_.chance(wire.reorder)) {
    arrival += Duration(
        static_cast<int64_t>(random_.below(static_cast<uint64_t>(wire.reorder_delay.count()) + 1)));
  }
  queue_.schedule(arrival,
                  [this, alive = alive_, from, to, datagram = std::move(datagram)]() mutable {
                    if (*alive) deliver(from, to, std::move(datagram));
                  });
}

void SimNetwork::deliver(uint32_t from, uint32_t to, Datagram datagram) {
  for (uint64_t* digest : {&digest_, &timing_digest_}) {
    Note(*digest, static_cast<uint64_t>(queue_.now().time_since_epoch().count()));
    Note(*digest, static_cast<uint64_t>(from) << 32 | to);
    Note(*digest, datagram.bytes->size());
    if (datagram.marked) Note(*digest, 1);
  }
  Note(digest_, Crc32c(*datagram.bytes));
  SimPort* receiver = ports_[to];
  if (receiver != nullptr && receiver->accept(from, std::move(datagram.bytes), datagram.marked)) {
    ++stats_.delivered;
    return;
  }
  ++stats_.dropped;
  const bool unreachable = receiver == nullptr && report_unreachable_;
  if (unreachable && ports_[from] != nullptr) ports_[from]->report(to, Obstacle::kPortRefused);
}

void SimNetwork::detach(uint32_t endpoint) { ports_[endpoint] = nullptr; }

}  // namespace rocecoll
