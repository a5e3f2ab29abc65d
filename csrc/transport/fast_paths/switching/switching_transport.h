// SPDX-License-Identifier: Apache-2.0
// A fast path to each peer beside a control transport that reaches all of them. Addresses and
// notices are the control transport's.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/pause_detector.h"
#include "base/tally.h"
#include "transport/fast_path.h"
#include "transport/fast_paths/switching/switching_context.h"
#include "transport/fast_paths/switching/switching_link.h"
#include "transport/fast_paths/switching/switching_options.h"
#include "transport/health_watch.h"
#include "transport/transport.h"

namespace rocecoll {

class SwitchingTransport final : public Transport {
 public:
  // Without a device, for the reason `no_device`, every link uses the control path, and peers that
  // have one learn why.
  SwitchingTransport(std::unique_ptr<Transport> control, std::unique_ptr<FastDevice> device,
                     const SwitchingOptions& options, const std::string& no_device);
  ~SwitchingTransport() override;
  SwitchingTransport(const SwitchingTransport&) = delete;
  SwitchingTransport& operator=(const SwitchingTransport&) = delete;

  TransportLimits limits() const override { return limits_towards({}); }
  TransportLimits limits_towards(std::span<const Address> peers) const override;
  Address address() const override { return control_->address(); }
  MemoryDomain& memory() override;
  TransportStats stats() const override;
  Result<Link*> open(const LinkId& id, const Address& peer, Duration connect_timeout,
                     Instant now) override;
  void notify(const Address& peer, std::span<const std::byte> notice) override {
    control_->notify(peer, notice);
  }
  size_t poll(Instant now, std::span<Event> events) override;
  void transmit(Instant now) override;
  bool lingering() const override;
  Instant next_deadline() const override;
  WaitHandle wait_handle() override;
  bool arm() override;

  // How many of the open links the fast path carries now.
  size_t links_on_path() const { return links_.size() - context_.links_off_path; }

 private:
  static constexpr size_t kBatch = 64;

  void give_back_lent();
  bool reaches(const Address& peer) const;
  bool may_put_off(bool busy);
  size_t poll_control(std::span<Event> events);
  size_t poll_device();
  void check_health();
  bool sends_heartbeats() const;
  void run_timers();
  void pump();
  void reap();
  void drain(SwitchingLink& link);
  size_t take_events(std::span<Event> events);

  const std::unique_ptr<Transport> control_;
  const std::unique_ptr<FastDevice> device_;
  SwitchingContext context_;
  std::unordered_map<const Link*, std::unique_ptr<SwitchingLink>> links_;  // by their control link
  std::array<Event, kBatch> control_events_;  // of the last look: clearing them takes long
  std::vector<FastLease> lent_;               // of events that have been polled
  std::vector<SwitchingLink*> in_turn_;       // of context_.dirty
  std::vector<SwitchingLink*> blocked_;       // wait for room in the control path
  Instant control_due_{};
  int put_off_ = 0;  // polls in a row
  Instant heartbeats_due_{};
  bool beyond_reach_ = false;  // there are, or were, links that no fast path may carry
  PauseDetector pauses_;       // between calls of poll()
  bool armed_ = false;         // the driver may have slept since the last poll()
  HealthWatch health_;
  Tally downs_;  // of the device
};

}  // namespace rocecoll
