// SPDX-License-Identifier: Apache-2.0
// Two simulated devices, each with a connected queue pair, for the tests of the RDMA simulator.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transport/sim/sim_rdma.h"

namespace rocecoll {

using Completions = std::vector<WorkCompletion>;
using Kind = SendRequest::Kind;

inline constexpr size_t kMemoryBytes = 4096;
inline constexpr size_t kBufferBytes = 256;

// One device with memory that peers may write, memory to send from, and one queue pair.
struct Node {
  Node(SimRdmaFabric& fabric, const RdmaLimits& limits)
      : device(fabric.add_device(limits)),
        target(kMemoryBytes),
        source(kMemoryBytes),
        buffers(kMemoryBytes) {
    region = device->register_memory(target, RemoteAccess::kWrite).value();
    source_region = device->register_memory(source, RemoteAccess::kNone).value();
    buffer_region = device->register_memory(buffers, RemoteAccess::kNone).value();
    queue_pair = device->create_queue_pair().take();
  }

  void post_receives(size_t count, size_t size = kBufferBytes) {
    for (size_t i = 0; i < count; ++i) {
      const uint64_t id = next_receive++;
      const std::span<std::byte> buffer = buffer_of(id).first(size);
      const ReceiveRequest request{id, buffer, buffer_region.local_key};
      ASSERT_EQ(device->post_receives({&request, 1}), 1u);
    }
  }
  std::span<std::byte> buffer_of(uint64_t id) {
    return std::span(buffers).subspan(id % (kMemoryBytes / kBufferBytes) * kBufferBytes,
                                      kBufferBytes);
  }
  // The completions of requests; those of connections go to `connects`.
  Completions poll() {
    Completions all;
    std::array<WorkCompletion, 3> some;
    while (size_t count = device->poll(some)) {
      for (const WorkCompletion& one : std::span(some).first(count)) {
        (one.kind == WorkCompletion::Kind::kConnect ? connects : all).push_back(one);
      }
    }
    return all;
  }

  std::unique_ptr<RdmaDevice> device;
  std::vector<std::byte> target;
  std::vector<std::byte> source;
  std::vector<std::byte> buffers;
  MemoryRegion region;
  MemoryRegion source_region;
  MemoryRegion buffer_region;
  std::unique_ptr<RdmaQueuePair> queue_pair;  // the last member: destroyed before its device
  uint64_t next_receive = 0;
  Completions connects;
};

inline RdmaLimits SmallLimits() {
  RdmaLimits limits = SimRdmaFabric::DefaultLimits();
  limits.max_send_requests = 8;
  limits.max_receive_requests = 8;
  return limits;
}

class SimRdmaTest : public testing::Test {
 protected:
  explicit SimRdmaTest(const SimRdmaOptions& options = {})
      : fabric_(queue_, options), a_(fabric_, SmallLimits()), b_(fabric_, SmallLimits()) {}

  void SetUp() override {
    ASSERT_TRUE(a_.queue_pair->connect(b_.queue_pair->address()).ok());
    ASSERT_TRUE(b_.queue_pair->connect(a_.queue_pair->address()).ok());
    ASSERT_TRUE(a_.poll().empty() && b_.poll().empty());
  }
  void TearDown() override {
    a_.queue_pair->fail();
    b_.queue_pair->fail();
  }

  void run(Duration time) { queue_.run_until(queue_.now() + time); }
  SendRequest send(uint64_t id, const std::string& text, bool signaled = true) {
    std::transform(text.begin(), text.end(), a_.source.begin(),
                   [](char c) { return static_cast<std::byte>(c); });
    SendRequest request;
    request.signaled = signaled;
    request.local_key = a_.source_region.local_key;
    request.id = id;
    request.payload = std::span(a_.source).first(text.size());
    return request;
  }
  SendRequest write(uint64_t id, size_t offset, size_t size) {
    SendRequest request;
    request.kind = Kind::kWrite;
    request.signaled = true;
    request.local_key = a_.source_region.local_key;
    request.id = id;
    request.payload = std::span(a_.source).first(size);
    request.remote_address = reinterpret_cast<uint64_t>(b_.target.data()) + offset;
    request.remote_key = b_.region.remote_key;
    return request;
  }
  void post(const SendRequest& request) { ASSERT_EQ(a_.queue_pair->post({&request, 1}), 1u); }
  // The outcomes of A's requests: "id status" of each completion.
  static std::vector<std::pair<uint64_t, CompletionStatus>> Outcomes(const Completions& all) {
    std::vector<std::pair<uint64_t, CompletionStatus>> outcomes;
    for (const WorkCompletion& one : all) outcomes.emplace_back(one.id, one.status);
    return outcomes;
  }
  using Expected = std::vector<std::pair<uint64_t, CompletionStatus>>;

  EventQueue queue_;
  SimRdmaFabric fabric_;
  Node a_;
  Node b_;
};

inline std::string TextOf(std::span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace rocecoll
