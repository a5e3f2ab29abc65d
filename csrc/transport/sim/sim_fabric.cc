// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/sim_fabric.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

#include "base/check.h"
#include "transport/sim/sim_transport.h"

namespace rocecoll {

SimFabric::SimFabric(const SimFabricOptions& options)
    : options_(options), random_(options.seed), ports_(options.endpoints) {
  transports_.reserve(options.endpoints);
  for (uint32_t i = 0; i < options.endpoints; ++i) {
    transports_.push_back(std::make_unique<SimTransport>(*this, i));
  }
}

SimFabric::~SimFabric() = default;

SimTransport& SimFabric::transport(uint32_t endpoint) {
  ROCECOLL_CHECK(endpoint < transports_.size());
  return *transports_[endpoint];
}

void SimFabric::kill(uint32_t endpoint) {
  ROCECOLL_CHECK(endpoint < ports_.size());
  if (ports_[endpoint].dead) return;
  ports_[endpoint].dead = true;
  queue_.schedule(now() + options_.detection_delay, [this, endpoint] {
    for (const auto& transport : transports_) transport->on_endpoint_dead(endpoint);
  });
}

bool SimFabric::advance() {
  const Instant next = queue_.next_time();
  if (next == kNever) return false;
  queue_.run_until(next);
  return true;
}

void SimFabric::mark_ready(uint32_t endpoint) {
  Port& port = ports_[endpoint];
  if (port.ready) return;
  port.ready = true;
  ready_.push_back(endpoint);
}

std::vector<uint32_t> SimFabric::take_ready() {
  std::vector<uint32_t> taken;
  taken.swap(ready_);
  for (uint32_t endpoint : taken) ports_[endpoint].ready = false;
  return taken;
}

Duration SimFabric::transfer_time(size_t bytes) const {
  return Duration(std::llround(static_cast<double>(bytes) * options_.ns_per_byte));
}

void SimFabric::carry(uint32_t from, uint32_t to, size_t bytes, Instant& last_arrival,
                      EventQueue::Callback deliver) {
  const Duration transfer = transfer_time(bytes);
  Instant& injection_free = ports_[from].injection_free;
  const Instant start = std::max(now(), injection_free);
  injection_free = start + transfer;
  Duration jitter{0};
  if (options_.max_jitter > Duration{0}) {
    jitter = Duration(static_cast<int64_t>(
        random_.below(static_cast<uint64_t>(options_.max_jitter.count()) + 1)));
  }
  last_arrival = std::max(last_arrival, start + options_.latency + jitter);
  queue_.schedule(last_arrival, [this, to, transfer, deliver = std::move(deliver)]() mutable {
    Instant& ejection_free = ports_[to].ejection_free;
    ejection_free = std::max(now(), ejection_free) + transfer;
    queue_.schedule(ejection_free, std::move(deliver));
  });
}

bool RunUntil(SimFabric& fabric, const std::function<Instant(uint32_t, Instant)>& step,
              const std::function<bool()>& done, Duration limit) {
  using Wake = std::pair<Instant, uint32_t>;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes;
  std::vector<Instant> wake_at(fabric.size(), kNever);
  auto step_one = [&](uint32_t endpoint) {
    if (!fabric.alive(endpoint)) return;
    // At least a nanosecond later, so that an endpoint that is always due does not stop the clock.
    const Instant again = std::max(step(endpoint, fabric.now()), fabric.now() + Duration(1));
    if (again >= wake_at[endpoint]) return;
    wake_at[endpoint] = again;
    wakes.emplace(again, endpoint);
  };
  const Instant end = fabric.now() + limit;
  for (uint32_t i = 0; i < fabric.size(); ++i) step_one(i);
  while (true) {
    for (auto due = fabric.take_ready(); !due.empty(); due = fabric.take_ready()) {
      for (uint32_t endpoint : due) step_one(endpoint);
    }
    if (done()) return true;
    const Instant wake = wakes.empty() ? kNever : wakes.top().first;
    const Instant next = std::min(fabric.next_event_time(), wake);
    if (next == kNever || next > end) return false;
    fabric.queue().run_until(next);
    while (!wakes.empty() && wakes.top().first <= next) {
      const auto [at, endpoint] = wakes.top();
      wakes.pop();
      if (wake_at[endpoint] != at) continue;  // superseded by an earlier time, which has fired
      wake_at[endpoint] = kNever;
      step_one(endpoint);
    }
  }
}

}  // namespace rocecoll
