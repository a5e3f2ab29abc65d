// SPDX-License-Identifier: Apache-2.0
// A transport on which nothing ever comes, with places where a test may step in: under the progress
// lock, while the engine is stepped and when a thread is about to sleep.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "transport/plain_memory.h"
#include "transport/transport.h"

namespace rocecoll {

class MuteTransport final : public Transport {
 public:
  // Run by the methods of these names, under the progress lock, on whichever thread holds it.
  std::function<void()> on_poll;
  std::function<void()> on_arm;
  std::function<void()> on_stats;
  Instant deadline = kNever;
  int frames_sent = 0;

  TransportLimits limits() const override { return {4096, 1024}; }
  Address address() const override { return {}; }
  MemoryDomain& memory() override { return memory_; }
  TransportStats stats() const override {
    if (on_stats) on_stats();
    return {};
  }
  Result<Link*> open(const LinkId& id, const Address&, Duration, Instant) override {
    links_.push_back(std::make_unique<MuteLink>(*this, id));
    return static_cast<Link*>(links_.back().get());
  }
  void notify(const Address&, std::span<const std::byte>) override {}
  void transmit(Instant) override {}
  size_t poll(Instant, std::span<Event>) override {
    if (on_poll) on_poll();
    return 0;
  }
  bool lingering() const override { return false; }
  Instant next_deadline() const override { return deadline; }
  WaitHandle wait_handle() override { return {}; }
  bool arm() override {
    if (on_arm) on_arm();
    return true;
  }

 private:
  class MuteLink final : public Link {
   public:
    MuteLink(MuteTransport& transport, const LinkId& id) : transport_(transport), id_(id) {}
    LinkId id() const override { return id_; }
    bool send_frame(const FrameBytes&) override {
      ++transport_.frames_sent;
      return true;
    }
    uint64_t unsent_frames() const override { return 0; }
    bool write(const RemoteSlice&, LocalSlice, uint32_t) override { return true; }
    RemoteSlice expose(LocalSlice into, uint32_t) override { return {0, into.size, 0}; }
    void unexpose(const RemoteSlice&) override {}
    void close(const Status&) override {}
    const Status& status() const override { return status_; }

   private:
    MuteTransport& transport_;
    const LinkId id_;
    const Status status_;
  };

  PlainMemoryDomain memory_;
  std::vector<std::unique_ptr<MuteLink>> links_;
};

}  // namespace rocecoll
