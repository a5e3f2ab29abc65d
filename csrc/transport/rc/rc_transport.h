// SPDX-License-Identifier: Apache-2.0
// Reliable-connection queue pairs under the Transport contract, beside a control transport that
// reaches every peer without RDMA. Addresses and notices are the control transport's.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/descriptor.h"
#include "base/pause_detector.h"
#include "transport/rc/rc_context.h"
#include "transport/rc/rc_link.h"
#include "transport/rc/rc_options.h"
#include "transport/rc/receive_pool.h"
#include "transport/rc/registered_memory.h"
#include "transport/rdma.h"
#include "transport/transport.h"

namespace rocecoll {

class RcTransport final : public Transport {
 public:
  // Without a device, for the reason `no_device`, every link uses the control path, and peers that
  // have one learn why.
  RcTransport(std::unique_ptr<Transport> control, std::unique_ptr<RdmaDevice> device,
              const RcOptions& options, std::string no_device = "");
  ~RcTransport() override;
  RcTransport(const RcTransport&) = delete;
  RcTransport& operator=(const RcTransport&) = delete;

  TransportLimits limits() const override;
  Address address() const override { return control_->address(); }
  MemoryDomain& memory() override;
  TransportStats stats() const override;
  Result<Link*> open(const LinkId& id, const Address& peer, Duration connect_timeout,
                     Instant now) override;
  void notify(const Address& peer, std::span<const std::byte> notice) override {
    control_->notify(peer, notice);
  }
  size_t poll(Instant now, std::span<Event> events) override;
  bool lingering() const override;
  Instant next_deadline() const override;
  WaitHandle wait_handle() override { return wait_handle_; }
  bool arm() override;

  // How many of the open links queue pairs carry now.
  size_t links_on_roce() const { return links_.size() - context_.links_off_roce; }

 private:
  static constexpr size_t kBatch = 64;

  void make_wait_handle();
  void give_back_lent();
  void poll_control();
  size_t poll_device();
  void dispatch(const WorkCompletion& completion);
  void check_health();
  void run_timers();
  void pump();
  void reap();
  void drain(RcLink& link);
  size_t take_events(std::span<Event> events);

  const std::unique_ptr<Transport> control_;
  const std::unique_ptr<RdmaDevice> device_;
  std::unique_ptr<RegisteredMemory> memory_;
  std::unique_ptr<ReceivePool> receives_;
  RcContext context_;
  std::unordered_map<const Link*, std::unique_ptr<RcLink>> links_;  // by their control link
  std::vector<RcPendingEvent> lent_;  // polled, with a receive request
  std::vector<RcLink*> in_turn_;      // of context_.dirty
  std::vector<RcLink*> blocked_;      // wait for room in the control path
  Instant control_due_{};
  Instant health_due_{};
  PauseDetector pauses_;  // between calls of poll()
  bool armed_ = false;    // the driver may have slept since the last poll()
  WaitHandle wait_handle_;
  Descriptor epoll_fd_;
};

}  // namespace rocecoll
