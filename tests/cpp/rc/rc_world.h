// SPDX-License-Identifier: Apache-2.0
// RC transports on simulated RDMA devices and a simulated network for their control paths.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "transport/datagram/datagram_transport.h"
#include "transport/rc/rc_transport.h"
#include "transport/sim/sim_network.h"
#include "transport/sim/sim_port.h"
#include "transport/sim/sim_rdma.h"

namespace rocecoll {

using Bytes = std::vector<std::byte>;

inline Bytes RandomBytes(size_t size, uint64_t seed) {
  Random random(seed);
  Bytes bytes(size);
  for (size_t i = 0; i < size; i += 8) {
    const uint64_t word = random.next();
    std::memcpy(bytes.data() + i, &word, std::min<size_t>(8, size - i));
  }
  return bytes;
}

struct RcLinkRecord {
  std::vector<Bytes> frames;
  std::vector<uint32_t> written;
  std::vector<uint32_t> landed;
  std::vector<Status> down;
};

struct RcWorldOptions {
  RcOptions rc;
  SimWire wire;  // of the control path
  SimRdmaOptions rdma;
  RdmaLimits limits = SimRdmaFabric::DefaultLimits();
  std::vector<uint32_t> without_device;
};

class RcWorld {
 public:
  explicit RcWorld(uint32_t count, const RcWorldOptions& options = {})
      : network(queue, 1, options.wire), fabric(queue, options.rdma), records(count) {
    network.set_report_unreachable(true);
    while (TakeLogEntry(Duration{0})) {
    }
    for (uint32_t i = 0; i < count; ++i) {
      auto port = network.add_endpoint();
      addresses.push_back(port->address());
      auto control = std::make_unique<DatagramTransport>(std::move(port), ConnectionOptions());
      auto device = fabric.add_device(options.limits);
      if (std::ranges::find(options.without_device, i) != options.without_device.end()) {
        device = nullptr;
      }
      transports.push_back(
          std::make_unique<RcTransport>(std::move(control), std::move(device), options.rc));
    }
  }
  ~RcWorld() { transports.clear(); }

  Link* open(uint32_t from, uint32_t to, uint64_t group = 1) {
    const LinkId id{group, 77, from, to};
    Result<Link*> link =
        transports[from]->open(id, addresses[to], std::chrono::seconds(30), queue.now());
    EXPECT_TRUE(link.ok()) << link.status().message();
    return link.ok() ? link.value() : nullptr;
  }
  size_t poll(uint32_t at, size_t events = 16) {
    std::array<Event, 64> batch;
    const size_t count = transports[at]->poll(queue.now(), std::span(batch).first(events));
    for (const Event& event : std::span(batch).first(count)) {
      if (event.link == nullptr) continue;
      RcLinkRecord& record = records[at][event.link];
      EXPECT_TRUE(record.down.empty()) << "an event after Down";
      if (event.kind == Event::Kind::kFrame) {
        record.frames.emplace_back(event.frame.begin(), event.frame.end());
      }
      if (event.kind == Event::Kind::kWritten) record.written.push_back(event.token);
      if (event.kind == Event::Kind::kLanded) record.landed.push_back(event.token);
      if (event.kind == Event::Kind::kDown) record.down.push_back(event.link->status());
    }
    return count;
  }
  bool run(const std::function<bool()>& done, Duration limit = std::chrono::seconds(20)) {
    const Instant end = queue.now() + limit;
    while (true) {
      bool busy = false;
      Instant next = std::min(end, queue.next_time());
      for (uint32_t i = 0; i < transports.size(); ++i) {
        if (transports[i] == nullptr) continue;
        busy = poll(i) > 0 || busy;
        next = std::min(next, transports[i]->next_deadline());
      }
      if (done()) return true;
      if (queue.now() >= end) return false;
      next = std::min(next, queue.next_time());
      if (!busy) queue.run_until(std::max(next, queue.now() + std::chrono::microseconds(1)));
    }
  }
  void run_for(Duration duration) {
    run([] { return false; }, duration);
  }
  RcLinkRecord& at(uint32_t node, Link* link) { return records[node][link]; }
  // Both directions of a pair of links carry RoCE, as the log says.
  static std::vector<std::string> log() {
    std::vector<std::string> texts;
    while (auto entry = TakeLogEntry(Duration{0})) {
      texts.push_back((entry->severity == Severity::kWarning ? "warning: " : "info: ") +
                      entry->text);
    }
    return texts;
  }
  uint32_t queue_pair(uint32_t node) const { return fabric.queue_pairs(node).back(); }

  EventQueue queue;
  SimNetwork network;
  SimRdmaFabric fabric;
  std::vector<Address> addresses;
  std::vector<std::unique_ptr<RcTransport>> transports;
  std::vector<std::map<Link*, RcLinkRecord>> records;
};

inline bool Contains(const std::vector<std::string>& texts, const std::string& part) {
  return std::ranges::any_of(
      texts, [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

}  // namespace rocecoll
