// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/rdma.h"
#include "transport/verbs/completion_queue.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/queue_pair.h"
#include "transport/verbs/slow_calls.h"
#include "transport/verbs/verbs_port.h"

namespace rocecoll {

class VerbsDevice final : public RdmaDevice {
 public:
  // Opens all ports that the options choose: at least one.
  static Result<RdmaDevices> OpenAll(const RdmaOptions& options);

  RdmaLimits limits() const override { return limits_; }
  const std::string& description() const override { return description_; }
  Result<MemoryRegion> register_memory(std::span<std::byte> memory, RemoteAccess access) override;
  void deregister(const MemoryRegion& region) override;
  Result<std::unique_ptr<RdmaQueuePair>> create_queue_pair() override;
  size_t post_receives(std::span<const ReceiveRequest> batch) override;
  size_t poll(std::span<WorkCompletion> completions) override;
  bool arm() override;
  WaitHandle wait_handle() override { return port_->wait_handle(); }
  Status health() override;

 private:
  static Result<std::unique_ptr<RdmaDevice>> OpenPort(const RdmaOptions& options,
                                                      const PortChoice& choice);
  explicit VerbsDevice(std::unique_ptr<VerbsPort> port);
  Status prepare();
  void make_receive_queue();
  // The number of requests in the shared receive queue.
  uint32_t shared_receives() const;
  // The number of entries that this many queue pairs need.
  uint64_t completions_of(uint64_t queue_pairs) const;
  Status make_completion_queue();
  Status grant_sends();
  Status reserve_completions();
  VerbsQueuePair::Queues queues();

  std::unique_ptr<VerbsPort> port_;
  const std::string description_;
  RdmaLimits limits_;
  uint32_t asked_inline_bytes_ = 0;
  std::unique_ptr<CompletionQueue> completions_;
  SharedReceiveQueueHandle receives_;  // null: each queue pair has its own
  CompletionReserve reserve_;
  std::vector<WorkCompletion> connects_;   // to be polled; at most one for each queue pair
  std::unique_ptr<SlowCalls> slow_calls_;  // destroyed before what its calls use
};

}  // namespace rocecoll
