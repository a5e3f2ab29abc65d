// SPDX-License-Identifier: Apache-2.0
// A fast path through the memory of this process, with ends that break on demand: shows that
// SwitchingTransport knows nothing of RDMA.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/fast_path.h"
#include "transport/fast_paths/switching/kept_messages.h"
#include "transport/sim/event_queue.h"

namespace rocecoll {

class MemoryPath;

// All ends of all processes, by a number that is never used again.
struct MemoryFabric {
  explicit MemoryFabric(EventQueue& q) : queue(q) {}

  // What is sent takes one latency to the other end, if that lives by then.
  static constexpr Duration kLatency = std::chrono::microseconds(2);

  EventQueue& queue;
  std::map<uint64_t, MemoryPath*> ends;
  uint64_t next_end = 1;
};

class MemoryDevice final : public FastDevice {
 public:
  explicit MemoryDevice(MemoryFabric& fabric) : fabric_(fabric) {}

  const std::string& description() const override { return description_; }
  MemoryDomain* memory() override { return nullptr; }
  const TransportStats& stats() const override { return stats_; }
  std::unique_ptr<FastPath> make_path() override;
  bool poll(FastEvent& event) override {
    if (next_ == events_.size()) {
      while (!events_.empty() && released_.contains(first_lease_)) {
        released_.erase(first_lease_++);
        events_.pop_front();
        --next_;
      }
      return false;
    }
    event = events_[next_].event;
    event.frame = events_[next_].frame;
    event.lease.id = first_lease_ + next_++;
    if (event.kind != FastEvent::Kind::kFrame) released_[event.lease.id] = true;
    return event.path != nullptr || poll(event);
  }
  FastPath* release(const FastLease& lease) override {
    EXPECT_FALSE(std::exchange(released_[lease.id], true));
    return nullptr;  // nobody waits for room
  }
  WaitHandle wait_handle() override { return {}; }
  bool arm() override { return next_ == events_.size(); }
  Status health(Instant /*now*/) override {
    ++looks;
    return broken ? Status(StatusCode::kDevice, "switched off") : Status();
  }

  void report(FastEvent event, std::vector<std::byte> frame = {}) {
    events_.push_back({event, std::move(frame)});
  }
  void forget(const FastPath& path) {
    for (size_t i = next_; i < events_.size(); ++i) {
      if (events_[i].event.path == &path) events_[i].event.path = nullptr;
    }
  }
  int looks = 0;  // at its health
  bool broken = false;
  bool full = false;  // nothing more can be exposed

 private:
  struct Entry {
    FastEvent event;
    std::vector<std::byte> frame;
  };
  MemoryFabric& fabric_;
  const std::string description_ = "the memory of this process";
  TransportStats stats_;
  std::deque<Entry> events_;  // polled ones stay until their lease is back
  size_t next_ = 0;
  uint64_t first_lease_ = 0;
  std::map<uint64_t, bool> released_;
};

class MemoryPath final : public FastPath {
 public:
  MemoryPath(MemoryFabric& fabric, MemoryDevice& device) : fabric_(fabric), device_(device) {}
  ~MemoryPath() override { destroy(); }

  Status prepare() override {
    destroy();
    end_ = fabric_.next_end++;
    fabric_.ends[end_] = this;
    peer_ = 0;
    messages_.rewind();
    proved_ = started_ = failed_ = false;
    return {};
  }
  Ends ends() const override {
    Ends ends{1, {}};
    if (end_ != 0) ends.addresses.emplace_back(std::as_bytes(std::span(&end_, 1)), "memory");
    return ends;
  }
  Status connect(const Ends& peer) override {
    std::memcpy(&peer_, peer.addresses.front().bytes().data(), sizeof(peer_));
    return {};
  }
  bool connected() const override { return peer_ != 0; }
  Status probe() override {
    send([](MemoryPath&) {}, [](MemoryPath& self) { self.proved_ = true; });
    return {};
  }
  bool proved() const override { return proved_; }
  void start() override { started_ = true; }
  void fail() override {
    failed_ = true;
    fabric_.ends.erase(end_);
    device_.forget(*this);
  }
  bool failed() const override { return failed_; }
  bool drained() const override { return failed_; }
  void destroy() override {
    fail();
    end_ = 0;
  }
  std::vector<WireBytes> give_up() override {
    destroy();
    std::vector<WireBytes> frames;
    for (Message& message : messages_) {
      if (!message.write) frames.push_back(std::move(message.frame));
    }
    messages_ = KeptMessages<Message>(0);
    received_ = 0;
    forget_lent();
    return frames;
  }

  PathStats stats() const override { return {"memory", false, traffic_, {}, {}}; }
  std::string carrier() const override { return "memory"; }

  Counts received() const override { return {received_}; }
  bool acknowledge(const Counts& received) override {
    return messages_.acknowledge(received[0], [this](Message& message) { settle(message); });
  }
  uint64_t pushed() const override { return messages_.pushed(); }
  uint64_t unsent() const override { return messages_.unsent().size(); }
  bool empty() const override { return messages_.empty(); }
  void request_acknowledgement() override {}
  bool push_frame(const FrameBytes& frame) override {
    if (messages_.size() >= 64) return false;
    frame.append_to(messages_.push({}).frame);
    return true;
  }
  void push_write(uint32_t number, const RemoteSlice& to, LocalSlice from) override {
    messages_.push({{}, Write{number, to, from}});
  }
  Status pump() override {
    for (; started_ && !failed_ && !messages_.all_sent(); messages_.on_sent()) {
      traffic_.sent(messages_.to_send().size());
      send([number = messages_.next(), from = this](MemoryPath& peer) { peer.take(number, *from); },
           [](MemoryPath& self) {
             self.settle(self.messages_.front());
             self.messages_.pop_front();
           });
    }
    return {};
  }
  std::vector<uint32_t> take_written() override { return std::exchange(written_, {}); }
  Result<RemoteSlice> expose(uint32_t number, LocalSlice into) override {
    if (device_.full) return Status(StatusCode::kDevice, "no room");
    exposed_[number] = into;
    return RemoteSlice{1, into.size, uint64_t{number} << 32};
  }
  bool take_back(uint32_t number) override {
    exposed_.erase(number);
    return true;  // a write lands as a whole
  }
  void forget_lent() override {
    exposed_.clear();
    written_.clear();
    for (Message& message : messages_) {
      if (message.write) message.write->from = {};
    }
  }
  // As if the memory between the two had gone.
  void break_end(const char* text = "broken by the test") {
    fail();
    report(FastEvent::Kind::kFailed, text);
    failed_ = false;
  }

 private:
  struct Write {
    uint32_t number;
    RemoteSlice to;
    LocalSlice from;
  };
  struct Message {
    WireBytes frame;
    std::optional<Write> write;

    size_t size() const { return write ? write->from.size : frame.size(); }
  };

  void report(FastEvent::Kind kind, const char* text = "") {
    FastEvent event;
    event.kind = kind;
    event.path = this;
    event.text = text;
    device_.report(event);
  }
  // Both run at the instant of delivery: the device of RDMA would acknowledge then, too.
  template <typename AtPeer, typename AtUs>
  void send(AtPeer at_peer, AtUs at_us) {
    fabric_.queue.schedule(fabric_.queue.now() + MemoryFabric::kLatency,
                           [&fabric = fabric_, us = end_, peer = peer_, at_peer, at_us] {
                             const auto self = fabric.ends.find(us);
                             if (self == fabric.ends.end()) return;
                             const auto other = fabric.ends.find(peer);
                             if (other == fabric.ends.end()) {
                               if (!self->second->failed_)
                                 self->second->report(FastEvent::Kind::kFailed, "no peer");
                               return;
                             }
                             at_peer(*other->second);
                             at_us(*self->second);
                             self->second->report(FastEvent::Kind::kProgress);
                           });
  }
  void take(uint64_t number, MemoryPath& from) {
    EXPECT_EQ(number, received_);
    ++received_;
    const Message& message = from.messages_.front();
    traffic_.received(message.size());
    FastEvent event;
    event.path = this;
    if (!message.write) {
      event.kind = FastEvent::Kind::kFrame;
      device_.report(event, message.frame);
      return;
    }
    event.number = ExposedNumber(message.write->to);
    const auto found = exposed_.find(event.number);
    event.kind = found == exposed_.end() ? FastEvent::Kind::kStray : FastEvent::Kind::kLanded;
    if (found != exposed_.end()) {
      place(found->second, message.write->from);
      exposed_.erase(found);
    }
    device_.report(event);
  }
  // What an intake has taken of it, if anything, may have come before a path that failed: then it
  // takes no more. Else it takes the half.
  static void place(const LocalSlice& into, const LocalSlice& from) {
    std::memcpy(into.data, from.data, from.size);
    const size_t half = from.size / 2 / Intake::kPieceBytes * Intake::kPieceBytes;
    if (into.intake != nullptr && into.intake->taken_bytes() == 0) {
      into.intake->take({from.data, half});
      std::memset(into.data, 0, half);
    }
  }
  void settle(const Message& message) {
    const bool lent = message.write && message.write->from.size > 0;  // not forgotten since
    if (lent) written_.push_back(message.write->number);
  }

  MemoryFabric& fabric_;
  MemoryDevice& device_;
  uint64_t end_ = 0;
  uint64_t peer_ = 0;
  bool proved_ = false;
  bool started_ = false;
  bool failed_ = true;
  Traffic traffic_;
  KeptMessages<Message> messages_{0};
  uint64_t received_ = 0;
  std::map<uint32_t, LocalSlice> exposed_;
  std::vector<uint32_t> written_;
};

inline std::unique_ptr<FastPath> MemoryDevice::make_path() {
  return std::make_unique<MemoryPath>(fabric_, *this);
}

}  // namespace rocecoll
