// SPDX-License-Identifier: Apache-2.0
// Transports that can reach each other, and what was seen to happen at them. Worlds derive from
// this: one for each kind of transport and network, in virtual or real time.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

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

#include "base/random.h"
#include "transport/sim/event_queue.h"
#include "transport/transport.h"

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

inline Bytes Text(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline LinkId Between(Rank local, Rank remote, uint64_t group = 1) {
  return {group, 77, local, remote};
}

// What one link has reported.
struct LinkRecord {
  std::vector<Bytes> frames;
  std::vector<uint32_t> written;
  std::vector<uint32_t> landed;
  std::vector<Status> down;
};

struct Node {
  Transport* transport = nullptr;  // null once its process has died
  std::map<Link*, LinkRecord> links;
  std::vector<Bytes> notices;
  std::vector<LinkId> incoming;

  size_t poll(Instant now, size_t events = 16) {
    std::array<Event, 64> batch;
    const size_t count = transport->poll(now, std::span(batch).first(events));
    for (const Event& event : std::span(batch).first(count)) {
      const Bytes frame(event.frame.begin(), event.frame.end());
      if (event.kind == Event::Kind::kNotice) {
        EXPECT_EQ(event.link, nullptr);
        notices.push_back(frame);
        continue;
      }
      if (event.kind == Event::Kind::kIncoming) {
        EXPECT_EQ(event.link, nullptr);
        incoming.push_back(event.incoming);
        continue;
      }
      LinkRecord& record = links[event.link];
      EXPECT_TRUE(record.down.empty()) << "an event after Down";
      if (event.kind == Event::Kind::kFrame) record.frames.push_back(frame);
      if (event.kind == Event::Kind::kWritten) record.written.push_back(event.token);
      if (event.kind == Event::Kind::kLanded) record.landed.push_back(event.token);
      if (event.kind == Event::Kind::kDown) record.down.push_back(event.link->status());
    }
    return count;
  }
};

class World {
 public:
  virtual ~World() = default;
  virtual Instant now() const = 0;
  // Lets time pass until something may have arrived, at most until `next`.
  virtual void wait(Instant next) = 0;
  // The process behind a node dies without a word.
  virtual void kill(size_t i) = 0;
  // Whether the kind of path that this world is named after carries the link's data now.
  virtual bool carries(const LinkId& /*link*/) { return true; }
  // Does what links have to survive, if this kind of network can do such a thing. `occasion`
  // counts.
  virtual void disturb(uint32_t /*occasion*/) {}
  // Long enough for everything that is under way to arrive.
  virtual Duration long_time() const = 0;

  Node& operator[](size_t i) { return nodes[i]; }
  Link* open(uint32_t from, uint32_t to, uint64_t group = 1,
             Duration timeout = std::chrono::seconds(30)) {
    Result<Link*> link =
        nodes[from].transport->open(Between(from, to, group), addresses[to], timeout, now());
    EXPECT_TRUE(link.ok()) << link.status().message();
    if (!link.ok()) return nullptr;
    // It may be where an earlier one was.
    owner_[link.value()] = from;
    nodes[from].links[link.value()] = {};
    return link.value();
  }
  // Opens the link at both ends: the first node's, then the second's.
  std::pair<Link*, Link*> connect(uint32_t a, uint32_t b, uint64_t group = 1) {
    Link* first = open(a, b, group);
    return {first, open(b, a, group)};
  }
  // Also of a link that has been closed since.
  const LinkRecord& record(Link* link) { return nodes[owner_.at(link)].links[link]; }
  bool is_down(Link* link) { return !record(link).down.empty(); }

  // Runs the nodes until `done`, at most for `limit`. True if done. Nodes that are `idle` are not
  // polled, as if their processes did something else.
  bool run(const std::function<bool()>& done, Duration limit = std::chrono::seconds(300),
           std::vector<size_t> idle = {}) {
    const Instant end = now() + limit;
    while (true) {
      Instant next = end;
      bool busy = false;
      for (size_t i = 0; i < nodes.size(); ++i) {
        if (nodes[i].transport == nullptr || std::ranges::count(idle, i) > 0) continue;
        busy = nodes[i].poll(now()) > 0 || busy;
        next = std::min(next, nodes[i].transport->next_deadline());
      }
      if (done()) return true;
      if (now() >= end) return false;
      if (!busy) wait(next);
    }
  }
  void run_for(Duration duration) {
    run([] { return false; }, duration);
  }
  bool transferred(Link* from, Link* into, size_t count) {
    return record(from).written.size() == count && record(into).landed.size() == count;
  }
  bool lingering() const {
    return std::ranges::any_of(nodes, [](const Node& node) {
      return node.transport != nullptr && node.transport->lingering();
    });
  }

  std::vector<Node> nodes;
  std::vector<Address> addresses;

 protected:
  void add(std::unique_ptr<Transport> transport) {
    add(*transport);
    owned_.back() = std::move(transport);
  }
  void add(Transport& owned_elsewhere) {
    nodes.emplace_back().transport = &owned_elsewhere;
    addresses.push_back(owned_elsewhere.address());
    owned_.emplace_back();
  }
  void destroy(size_t i) {
    nodes[i].transport = nullptr;
    owned_[i].reset();
  }
  // A new process takes the place of one that died.
  void replace(size_t i, std::unique_ptr<Transport> transport) {
    nodes[i] = Node();
    nodes[i].transport = transport.get();
    addresses[i] = transport->address();
    owned_[i] = std::move(transport);
  }

 private:
  std::vector<std::unique_ptr<Transport>> owned_;
  std::map<const Link*, size_t> owner_;
};

// Whose time is an event queue's.
class VirtualWorld : public World {
 public:
  Instant now() const override { return events_->now(); }
  void wait(Instant next) override {
    next = std::min(next, events_->next_time());
    // A deadline that has come leaves the clock alone; one microsecond keeps a loop from spinning.
    events_->run_until(std::max(next, now() + std::chrono::microseconds(1)));
  }
  Duration long_time() const override { return std::chrono::seconds(3); }

 protected:
  // Once, by the constructor of the world that owns them.
  void use_clock(EventQueue& events) { events_ = &events; }

 private:
  EventQueue* events_ = nullptr;
};

class RealTimeWorld : public World {
 public:
  Instant now() const override {
    return Instant(std::chrono::steady_clock::now().time_since_epoch());
  }
  void wait(Instant next) override {
    const Duration left =
        std::clamp<Duration>(next - now(), Duration{0}, std::chrono::milliseconds(20));
    const timespec timeout{0, static_cast<long>(left.count())};
    std::vector<pollfd> items;
    for (const Node& node : nodes) {
      if (node.transport == nullptr) continue;
      if (!node.transport->arm()) return;
      const WaitHandle handle = node.transport->wait_handle();
      for (const int descriptor : handle.descriptors()) items.push_back({descriptor, POLLIN, 0});
    }
    ppoll(items.data(), items.size(), &timeout, nullptr);
  }
  void kill(size_t i) override { destroy(i); }
  Duration long_time() const override { return std::chrono::milliseconds(100); }
};

}  // namespace rocecoll
