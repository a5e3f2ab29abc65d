// SPDX-License-Identifier: Apache-2.0
// Helpers for tests of real devices: which devices exist, and one end of a conversation over one of
// them.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/readable.h"
#include "transport/verbs/device_list.h"
#include "transport/verbs/port_choice.h"
#include "transport/verbs/verbs_device.h"
#include "verbs/first_port.h"

namespace rocecoll {

// The names of devices with a usable port.
inline std::vector<std::string> UsableDevices() {
  std::vector<std::string> names;
  for (const DeviceInfo& device : ListDevices()) {
    if (ChoosePort({device}, {}, {}).ok()) names.push_back(device.name);
  }
  return names;
}

// Empty if that many usable devices exist, otherwise what a skipped test says.
inline std::string NoDevices(size_t wanted) {
  if (UsableDevices().size() >= wanted) return "";
  return "needs " + std::to_string(wanted) +
         " usable RDMA device(s): " + DescribePorts(ListDevices(), {}, {});
}

// What scripts/softroce does to packets between two devices; empty if nothing.
inline std::string WireFaults() {
  const char* faults = std::getenv("SOFTROCE_NETEM");
  return faults == nullptr ? "" : faults;
}

// Which two devices talk to each other. Packets between two queue pairs of one Soft-RoCE device do
// not pass through the IP stack, and those between two devices do.
enum class Devices { kOneDevice, kTwoDevices };

inline std::string Name(Devices devices) {
  return devices == Devices::kOneDevice ? "OneDevice" : "TwoDevices";
}

inline std::vector<std::byte> Pattern(size_t size, uint32_t seed) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + seed * 7 + i / 251);
  return bytes;
}

constexpr auto kPatience = std::chrono::seconds(20);

// A device with 1 MiB of registered memory, and the completions it has reported.
class RdmaEnd {
 public:
  RdmaEnd(const std::string& name, RdmaOptions options, RemoteAccess access = RemoteAccess::kWrite)
      : memory(1 << 20) {
    options.hca = "=" + name;
    auto opened = VerbsDevice::OpenAll(options);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    device = std::move(opened.take().front());
    auto registered = device->register_memory(memory, access);
    EXPECT_TRUE(registered.ok()) << registered.status().message();
    region = registered.take();
  }
  ~RdmaEnd() {
    queue_pair.reset();
    device->deregister(region);
  }

  std::unique_ptr<RdmaQueuePair> make() {
    auto made = device->create_queue_pair();
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.take();
  }

  // Posts `count` receive requests of `bytes` each, one behind the other; their ids are their
  // offsets. If no receive queue is shared, they go to the queue pair.
  void post_receives(size_t count, size_t bytes) {
    std::vector<ReceiveRequest> requests;
    for (size_t i = 0; i < count; ++i) {
      requests.push_back(
          {i * bytes, std::span(memory).subspan(i * bytes, bytes), region.local_key});
    }
    ASSERT_EQ(device->limits().shared_receives ? device->post_receives(requests)
                                               : queue_pair->post_receives(requests),
              count);
  }

  // Connects, and waits until the connection is established.
  Status connect(RdmaQueuePair& which, const Address& peer) {
    Status status = which.connect(peer);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (status.ok() && std::chrono::steady_clock::now() < deadline) {
      WorkCompletion one;
      if (device->poll({&one, 1}) == 0) {
        if (device->arm()) WaitReadable(device->wait_handle(), 1000);
      } else if (one.kind != WorkCompletion::Kind::kConnect) {
        completions.push_back(one);
      } else if (one.queue_pair == which.number()) {
        if (one.status == CompletionStatus::kSuccess) return {};
        status = Status(StatusCode::kNetwork, one.text);
      }
    }
    return status.ok() ? Status(StatusCode::kTimeout, "the test has waited long enough") : status;
  }
  Status connect(const RdmaEnd& peer) { return connect(*queue_pair, peer.queue_pair->address()); }

  // Waits until there are `count` completions in all, and sleeps on the wait handle meanwhile.
  bool await(size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    std::array<WorkCompletion, 7> batch;
    while (completions.size() < count && std::chrono::steady_clock::now() < deadline) {
      const size_t polled = device->poll(batch);
      completions.insert(completions.end(), batch.begin(),
                         batch.begin() + static_cast<ptrdiff_t>(polled));
      if (polled == 0 && device->arm()) WaitReadable(device->wait_handle(), 1000);
    }
    EXPECT_EQ(completions.size(), count);
    return completions.size() == count;
  }

  // Polls, and polls again after a while. Returns true if nothing more has come.
  bool quiet() {
    WorkCompletion one;
    if (device->poll({&one, 1}) != 0) return false;
    while (!device->arm()) {
      if (device->poll({&one, 1}) != 0) return false;
    }
    return !WaitReadable(device->wait_handle(), 50);
  }

  SendRequest request(SendRequest::Kind kind, size_t offset, size_t bytes, uint64_t id) const {
    SendRequest made;
    made.kind = kind;
    made.signaled = true;
    made.local_key = region.local_key;
    made.id = id;
    made.payload = std::span(memory).subspan(offset, bytes);
    return made;
  }
  SendRequest write(const RdmaEnd& to, size_t offset, size_t bytes, uint64_t id) const {
    SendRequest made = request(SendRequest::Kind::kWrite, offset, bytes, id);
    made.remote_address = reinterpret_cast<uintptr_t>(to.memory.data()) + offset;
    made.remote_key = to.region.remote_key;
    return made;
  }
  void fill(size_t bytes, uint32_t seed) {
    const auto pattern = Pattern(bytes, seed);
    std::memcpy(memory.data(), pattern.data(), bytes);
  }
  bool holds(size_t offset, const std::vector<std::byte>& bytes) const {
    return std::memcmp(memory.data() + offset, bytes.data(), bytes.size()) == 0;
  }

  std::vector<std::byte> memory;
  std::unique_ptr<RdmaDevice> device;
  MemoryRegion region;
  std::unique_ptr<RdmaQueuePair> queue_pair;
  std::vector<WorkCompletion> completions;
};

}  // namespace rocecoll
