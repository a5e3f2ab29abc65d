// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/sim_rdma.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "transport/sim/sim_rdma_device.h"
#include "transport/sim/sim_rdma_queue_pair.h"

namespace rocecoll {

SimRdmaFabric::SimRdmaFabric(EventQueue& queue, const SimRdmaOptions& options)
    : queue_(queue),
      options_(options),
      random_(options.seed),
      alive_(std::make_shared<bool>(true)) {}

SimRdmaFabric::~SimRdmaFabric() { *alive_ = false; }

RdmaLimits SimRdmaFabric::DefaultLimits() {
  RdmaLimits limits;
  limits.mtu_bytes = 4096;
  limits.max_inline_bytes = 220;
  limits.max_message_bytes = size_t{1} << 30;
  limits.max_send_requests = 128;
  limits.max_receive_requests = 1024;
  return limits;
}

RdmaLimits SimRdmaFabric::OwnReceiveLimits() {
  RdmaLimits limits = DefaultLimits();
  limits.shared_receives = false;
  limits.max_receive_requests = 32;
  return limits;
}

std::unique_ptr<RdmaDevice> SimRdmaFabric::add_device(const RdmaLimits& limits) {
  const auto endpoint = static_cast<uint32_t>(slots_.size());
  auto device = std::make_unique<SimRdmaDevice>(*this, endpoint, limits);
  slots_.push_back({});
  slots_.back().device = device.get();
  return device;
}

void SimRdmaFabric::cut(uint32_t a, uint32_t b) { cuts_.insert(std::minmax(a, b)); }

void SimRdmaFabric::mend(uint32_t a, uint32_t b) {
  cuts_.erase(std::minmax(a, b));
  wake_all();
}

void SimRdmaFabric::set_port(uint32_t endpoint, bool up) {
  slots_.at(endpoint).port_up = up;
  if (up) wake_all();
}

void SimRdmaFabric::kill(uint32_t endpoint) { slots_.at(endpoint).dead = true; }

SimRdmaRefusals& SimRdmaFabric::refusals(uint32_t endpoint) { return slots_.at(endpoint).refusals; }

SimRdmaRegistrations& SimRdmaFabric::registrations(uint32_t endpoint) {
  return slots_.at(endpoint).registrations;
}

std::vector<uint32_t> SimRdmaFabric::queue_pairs(uint32_t endpoint) const {
  const SimRdmaDevice* device = slots_.at(endpoint).device;
  return device == nullptr ? std::vector<uint32_t>{} : device->queue_pairs();
}

size_t SimRdmaFabric::receive_requests(uint32_t endpoint) const {
  const SimRdmaDevice* device = slots_.at(endpoint).device;
  return device == nullptr ? 0 : device->receive_requests();
}

void SimRdmaFabric::break_queue_pair(uint32_t endpoint, uint32_t number) {
  SimRdmaQueuePair* queue_pair = find({endpoint, number});
  ROCECOLL_CHECK(queue_pair != nullptr);
  queue_pair->break_now();
}

bool SimRdmaFabric::passable(uint32_t a, uint32_t b) const {
  for (uint32_t endpoint : {a, b}) {
    if (endpoint >= slots_.size()) return false;
    const Slot& slot = slots_[endpoint];
    if (slot.device == nullptr || slot.dead || !slot.port_up) return false;
  }
  return !cuts_.contains(std::minmax(a, b));
}

SimRdmaQueuePair* SimRdmaFabric::find(const End& end) const {
  if (end.endpoint >= slots_.size()) return nullptr;
  const SimRdmaDevice* device = slots_[end.endpoint].device;
  return device == nullptr ? nullptr : device->find(end.number);
}

SimRdmaFabric::Flight SimRdmaFabric::launch(uint32_t endpoint, size_t bytes) {
  Slot& slot = slots_[endpoint];
  slot.bytes_sent += bytes;
  Flight flight;
  flight.departs = std::max(slot.port_free, queue_.now());
  if (options_.bytes_per_second > 0) {
    flight.departs += FromSeconds(static_cast<double>(bytes) / options_.bytes_per_second);
  }
  slot.port_free = flight.departs;
  const auto jitter = static_cast<uint64_t>(options_.max_jitter.count());
  flight.arrives = flight.departs + options_.latency +
                   Duration(static_cast<int64_t>(jitter == 0 ? 0 : random_.below(jitter + 1)));
  return flight;
}

void SimRdmaFabric::schedule(Instant at, uint32_t endpoint,
                             std::function<void(SimRdmaDevice&)> action) {
  queue_.schedule(at, [this, alive = alive_, endpoint, action = std::move(action)] {
    if (!*alive) return;
    if (SimRdmaDevice* device = slots_[endpoint].device) action(*device);
  });
}

void SimRdmaFabric::schedule(Instant at, const End& end,
                             std::function<void(SimRdmaQueuePair&)> action) {
  queue_.schedule(at, [this, alive = alive_, end, action = std::move(action)] {
    if (!*alive) return;
    if (SimRdmaQueuePair* queue_pair = find(end)) action(*queue_pair);
  });
}

void SimRdmaFabric::wake_all() {
  for (const Slot& slot : slots_) {
    if (slot.device != nullptr && !slot.dead) slot.device->wake_queue_pairs();
  }
}

void SimRdmaFabric::note(uint64_t value) { digest_ = (digest_ ^ value) * 0x100000001b3ull; }  // FNV

void SimRdmaFabric::note(std::span<const std::byte> bytes) {
  // The ends of a long payload represent all of it.
  constexpr size_t kSample = 64;
  note(bytes.size());
  for (std::byte byte : bytes.first(std::min(bytes.size(), kSample))) {
    note(static_cast<uint64_t>(byte));
  }
  for (std::byte byte : bytes.last(std::min(bytes.size(), kSample))) {
    note(static_cast<uint64_t>(byte));
  }
}

}  // namespace rocecoll
