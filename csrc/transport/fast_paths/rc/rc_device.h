// SPDX-License-Identifier: Apache-2.0
// Reliable-connection queue pairs as the fast path of a SwitchingTransport: the RDMA devices, the
// memory registered with them, their receive queues, and the paths of all links over them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/tally.h"
#include "transport/fast_path.h"
#include "transport/fast_paths/rc/rails.h"
#include "transport/fast_paths/rc/rc_options.h"
#include "transport/fast_paths/rc/rc_path.h"
#include "transport/fast_paths/rc/receive_pool.h"
#include "transport/fast_paths/rc/registered_memory.h"
#include "transport/fast_paths/switching/switching_transport.h"
#include "transport/rdma.h"

namespace rocecoll {

class RcDevice final : public FastDevice {
 public:
  RcDevice(RdmaDevices devices, const RcOptions& options);

  const std::string& description() const override { return rails_.description(); }
  MemoryDomain* memory() override { return &memory_; }
  const TransportStats& stats() const override { return stats_; }
  std::unique_ptr<FastPath> make_path() override { return std::make_unique<RcPath>(*this); }
  bool poll(FastEvent& event) override;
  FastPath* release(const FastLease& lease) override;
  bool leaves_host() const override { return true; }
  WaitHandle wait_handle() override { return rails_.wait_handle(); }
  bool arm() override;
  Status health(Instant now) override;

  // -- for its paths
  const RcOptions& options() const { return options_; }
  RegisteredMemory& registered_memory() { return memory_; }
  const Rails& rails() const { return rails_; }
  ReceivePool& receives(size_t rail) { return *polled_[rail].receives; }
  void flush_receives();
  // What each of its streams gives its peer. 0: the receive queues of some device are too short.
  uint32_t credits() const { return credits_; }
  TransportStats& own_stats() { return stats_; }
  std::unique_ptr<RcStream> make_stream(size_t rail, Traffic& traffic);
  void add(const RcStream& stream, RcPath& path) { by_queue_pair_.emplace(KeyOf(stream), &path); }
  // Before the stream's queue pair is destroyed.
  void remove(const RcStream& stream);
  // Identifies the stream's queue pair among those of all devices.
  static uint64_t KeyOf(const RcStream& stream) { return Key(stream.rail(), stream.number()); }
  // A number that no other link has, never 0.
  uint64_t number_link() { return ++links_; }
  // There is no memory to send from now: the path is pumped again once some has been given back.
  void wait_for_memory(RcPath& path);
  void on_memory_back();
  void forget(RcPath& path);

 private:
  // What comes over one rail.
  struct Polled {
    std::unique_ptr<ReceivePool> receives;
    std::array<WorkCompletion, 64> batch;
    size_t next = 0;       // of the batch
    size_t completed = 0;  // in the batch
    Tally downs;
  };

  static uint64_t Key(size_t rail, uint32_t queue_pair) {
    return uint64_t{rail} << 32 | queue_pair;
  }
  static size_t RailOf(uint64_t key) { return key >> 32; }
  bool poll_rail(size_t rail, FastEvent& event);
  void tell(size_t rail, Instant now);
  // Tells paths that have lost an end, or could have one more.
  void tell_paths(Rails::Set lost, Rails::Set back);

  const RcOptions options_;
  Rails rails_;
  const uint32_t credits_;
  RegisteredMemory memory_;
  std::array<Polled, RemoteSlice::kMaxPorts> polled_;
  size_t turn_ = 0;  // the rail that poll() is at
  TransportStats stats_;
  std::unordered_map<uint64_t, RcPath*> by_queue_pair_;
  std::vector<RcPath*> short_of_memory_;
  std::deque<std::pair<RcPath*, FastEvent::Kind>> told_;  // events that poll() will return
  uint64_t links_ = 0;
};

// Uses all devices at once. If there are none, for the reason `no_device`, every link uses the
// control path, and peers that have devices learn why.
std::unique_ptr<SwitchingTransport> MakeRcTransport(std::unique_ptr<Transport> control,
                                                    RdmaDevices devices, const RcOptions& options,
                                                    const std::string& no_device = "");

}  // namespace rocecoll
