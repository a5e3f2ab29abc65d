// SPDX-License-Identifier: Apache-2.0
// Reliable-connection queue pairs as the faster path of a DualTransport: one RDMA device, the
// memory registered with it, its shared receive queue, and the paths of all links over it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/dual/dual_transport.h"
#include "transport/fast_path.h"
#include "transport/rc/rc_options.h"
#include "transport/rc/rc_path.h"
#include "transport/rc/receive_pool.h"
#include "transport/rc/registered_memory.h"
#include "transport/rdma.h"

namespace rocecoll {

class RcDevice final : public FastDevice {
 public:
  RcDevice(std::unique_ptr<RdmaDevice> device, const RcOptions& options);

  const std::string& description() const override { return device_->description(); }
  MemoryDomain* memory() override { return &memory_; }
  const TransportStats& stats() const override { return stats_; }
  std::unique_ptr<FastPath> make_path() override { return std::make_unique<RcPath>(*this); }
  bool poll(FastEvent& event) override;
  FastPath* release(const FastLease& lease) override;
  bool leaves_host() const override { return true; }
  WaitHandle wait_handle() override { return device_->wait_handle(); }
  bool arm() override { return next_ == completed_ && device_->arm(); }
  Status health() override { return device_->health(); }

  // -- for its paths
  const RcOptions& options() const { return options_; }
  RegisteredMemory& registered_memory() { return memory_; }
  ReceivePool& receives() { return receives_; }
  // That each of its streams gives its peer; 0: the device's receive queues hold too little.
  uint32_t credits() const { return credits_; }
  TransportStats& own_stats() { return stats_; }
  std::unique_ptr<RcStream> make_stream(Traffic& traffic);
  void add(uint32_t queue_pair, RcPath& path) { by_queue_pair_.emplace(queue_pair, &path); }
  // Before the stream's queue pair is destroyed.
  void remove(const RcStream& stream);
  // A number of its own for a link, never 0.
  uint64_t number_link() { return ++links_; }
  // No memory to send from is to be had for now: the path is pumped again once some is back.
  void wait_for_memory(RcPath& path);
  void on_memory_back();
  void forget(RcPath& path) { std::erase(short_of_memory_, &path); }

 private:
  const RcOptions options_;
  const std::unique_ptr<RdmaDevice> device_;
  const uint32_t credits_;
  RegisteredMemory memory_;
  ReceivePool receives_;
  TransportStats stats_;
  std::unordered_map<uint32_t, RcPath*> by_queue_pair_;
  std::vector<RcPath*> short_of_memory_;
  uint64_t links_ = 0;
  std::array<WorkCompletion, 64> batch_;
  size_t next_ = 0;       // of the batch
  size_t completed_ = 0;  // in the batch
};

// Without a device, for the reason `no_device`, every link uses the control path, and peers that
// have one learn why.
std::unique_ptr<DualTransport> MakeRcTransport(std::unique_ptr<Transport> control,
                                               std::unique_ptr<RdmaDevice> device,
                                               const RcOptions& options,
                                               const std::string& no_device = "");

}  // namespace rocecoll
