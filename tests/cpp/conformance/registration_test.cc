// SPDX-License-Identifier: Apache-2.0
// What operations on large memory have registered with an RDMA device, and when.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/lasting_memory.h"
#include "base/run_choice.h"
#include "conformance/world_cluster.h"
#include "rc/rc_world.h"
#include "switching/memory_world.h"
#include "transport/fast_paths/rc/chunk_cache.h"

namespace rocecoll {
namespace {

constexpr size_t kMib = size_t{1} << 20;

// Gigabytes of addresses with a few pages behind them, which come again and again.
class RepeatedMemory {
 public:
  RepeatedMemory(size_t bytes, size_t pages_bytes) : bytes_(bytes), pages_bytes_(pages_bytes) {
    const int file = memfd_create("repeated", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(file, static_cast<off_t>(pages_bytes)), 0);
    void* all = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = static_cast<std::byte*>(all);
    for (size_t at = 0; at < bytes; at += pages_bytes) {
      EXPECT_NE(
          mmap(data_ + at, pages_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0),
          MAP_FAILED);
    }
    close(file);
  }
  ~RepeatedMemory() { munmap(data_, bytes_); }
  RepeatedMemory(const RepeatedMemory&) = delete;
  RepeatedMemory& operator=(const RepeatedMemory&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }
  std::span<std::byte> pages() const { return {data_, pages_bytes_}; }

 private:
  const size_t bytes_;
  const size_t pages_bytes_;
  std::byte* data_ = nullptr;
};

// Two ranks over RoCE alone, as their memory allows.
struct RoceRanks {
  explicit RoceRanks(const RcWorldOptions& options = {}) {
    auto made = std::make_unique<RcWorld>(2, options);
    world = made.get();
    cluster = std::make_unique<WorldCluster>(std::move(made));
  }
  // What the ranks have registered in the meantime is no more than `step_bytes` at a time.
  bool run_until_done(const std::vector<OperationPtr>& operations, uint64_t step_bytes) {
    std::vector<uint64_t> before{world->fabric.registrations(0).bytes_asked,
                                 world->fabric.registrations(1).bytes_asked};
    return cluster->run([&] {
      for (uint32_t rank = 0; rank < 2; ++rank) {
        const uint64_t asked = world->fabric.registrations(rank).bytes_asked;
        EXPECT_LE(asked - before[rank], step_bytes);
        before[rank] = asked;
      }
      return std::ranges::all_of(
          operations, [&](const OperationPtr& operation) { return cluster->is_done(operation); });
    });
  }
  OperationPtr submit(Rank rank, Collective collective, std::span<std::byte> memory) {
    OperationSpec spec;
    spec.collective = collective;
    spec.type = DataType::kFloat32;
    const OperationBuffer buffer{memory.data(), Partition::Even(memory.size() / 4, 1)};
    if (collective == Collective::kSend) spec.input = buffer;
    if (collective == Collective::kRecv) spec.output = buffer;
    if (collective == Collective::kAllreduce) {
      spec.input = spec.output = {memory.data(), Partition::Even(memory.size() / 4, 2)};
    }
    spec.root = 1 - rank;
    return cluster->submit(rank, std::move(spec));
  }

  RcWorld* world = nullptr;
  std::unique_ptr<WorldCluster> cluster;
};

void SendAndCheck(RoceRanks& ranks, size_t bytes, uint64_t step_bytes) {
  RepeatedMemory from(bytes, 16 * kMib);
  RepeatedMemory into(bytes, 16 * kMib);
  const Bytes pattern = RandomBytes(16 * kMib, 1);
  std::memcpy(from.data(), pattern.data(), pattern.size());
  const auto sent = ranks.submit(0, Collective::kSend, {from.data(), bytes});
  const auto received = ranks.submit(1, Collective::kRecv, {into.data(), bytes});
  EXPECT_TRUE(ranks.run_until_done({sent, received}, step_bytes));
  EXPECT_TRUE(sent->status().ok()) << sent->status().message();
  EXPECT_TRUE(received->status().ok()) << received->status().message();
  EXPECT_TRUE(std::ranges::equal(into.pages(), pattern));
}

// At 1 ms for each MiB, what is registered between two looks at the links takes 9 ms: heartbeats,
// and whatever else is due, wait no longer than that.
TEST(Registration, AMessageOfGigabytesIsRegisteredInBoundedPieces) {
  const size_t mebibytes = IsNightly() ? 4096 : 1024;
  RcWorldOptions options;
  options.rdma.bytes_per_second = 10e9;
  RoceRanks ranks(options);
  SendAndCheck(ranks, mebibytes * kMib, 9 * kMib);
  for (const uint32_t rank : {0u, 1u}) {
    const SimRdmaRegistrations& registrations = ranks.world->fabric.registrations(rank);
    EXPECT_LE(registrations.largest_bytes, ChunkCache::kLargestRegionBytes);
    EXPECT_LE(registrations.most_bytes, 400 * kMib);
    EXPECT_LE(registrations.bytes, 64 * kMib) << "the message's memory is withdrawn";
    EXPECT_GE(registrations.calls, mebibytes / 4) << "and was not copied";
    EXPECT_EQ(ranks.world->transports[rank]->links_on_path(), 1u);
  }
  EXPECT_FALSE(Contains(RcWorld::log(), "UDP"));
}

// As where `ulimit -l` says so: nothing but blocks can be registered, through which all is copied.
TEST(Registration, WithLittleLockedMemoryMessagesAreCopied) {
  RcWorldOptions options;
  options.limits.max_registered_bytes = 12 * kMib;
  RoceRanks ranks(options);
  SendAndCheck(ranks, 64 * kMib, 4 * kMib);
  EXPECT_LE(ranks.world->fabric.registrations(0).largest_bytes, kMib);
  EXPECT_EQ(ranks.world->transports[0]->links_on_path(), 1u);
  EXPECT_FALSE(Contains(RcWorld::log(), "UDP"));
}

TEST(Registration, WithAlmostNoLockedMemoryTheRestGoesOverUdp) {
  RcWorldOptions options;
  options.limits.max_registered_bytes = 3 * kMib;
  RoceRanks ranks(options);
  SendAndCheck(ranks, 64 * kMib, 4 * kMib);
}

// Many senders want more blocks than there are: they wait for those of each other.
TEST(Registration, SendsWaitForBlocksThatOthersHold) {
  RcWorldOptions options;
  options.rdma.bytes_per_second = 1e9;
  options.limits.max_registered_bytes = 12 * kMib;
  RoceRanks ranks(options);
  std::vector<Bytes> from, into;
  std::vector<OperationPtr> operations;
  constexpr size_t kMessages = 24;
  for (size_t i = 0; i < kMessages; ++i) {
    from.push_back(RandomBytes(900'000, i));
    into.emplace_back(900'000);
  }
  for (size_t i = 0; i < kMessages; ++i) {
    operations.push_back(ranks.submit(i % 2, Collective::kSend, from[i]));
    operations.push_back(ranks.submit(1 - i % 2, Collective::kRecv, into[i]));
  }
  EXPECT_TRUE(ranks.run_until_done(operations, 64 * kMib));
  EXPECT_TRUE(from == into);
  EXPECT_EQ(ranks.world->transports[0]->links_on_path(), 1u);
}

TEST(Registration, LanesOfAnOperationShareTheRegistrationOfItsMemory) {
  RoceRanks ranks;
  std::vector<std::vector<float>> memory(2, std::vector<float>(4 * kMib, 1.0f));
  for (int round = 0; round < 3; ++round) {
    std::vector<OperationPtr> operations;
    std::vector<SimRdmaRegistrations> before;
    for (const Rank rank : {0u, 1u}) {
      before.push_back(ranks.world->fabric.registrations(rank));
      operations.push_back(ranks.submit(rank, Collective::kAllreduce,
                                        std::as_writable_bytes(std::span(memory[rank]))));
    }
    ASSERT_TRUE(ranks.run_until_done(operations, 64 * kMib));
    for (const Rank rank : {0u, 1u}) {
      const float expected = static_cast<float>(2 << round);
      EXPECT_EQ(std::ranges::count(memory[rank], expected), std::ssize(memory[rank]));
      const SimRdmaRegistrations& after = ranks.world->fabric.registrations(rank);
      if (round == 0) continue;  // in which scratch is registered, for good
      EXPECT_EQ(after.calls - before[rank].calls, 4u) << "16 MiB in chunks of 4";
      EXPECT_EQ(after.bytes, before[rank].bytes);
    }
  }
}

// As of tensors that the backend allocates, and of DDP's buckets. Less than a mebibyte, too, which
// is copied where it does not last.
TEST(Registration, MemoryThatLastsIsRegisteredOnce) {
  RoceRanks ranks;
  for (const size_t bytes : {64 << 10, 300 << 10, 16 << 20}) {
    std::vector<LastingMemory::Owner> blocks;
    std::vector<std::span<float>> memory;
    for (int rank = 0; rank < 2; ++rank) {
      blocks.push_back(LastingMemory::Allocate(bytes));
      memory.emplace_back(reinterpret_cast<float*>(blocks.back().get()), bytes / 4);
      std::ranges::fill(memory.back(), 1.0f);
    }
    for (int round = 0; round < 3; ++round) {
      std::vector<OperationPtr> operations;
      std::vector<SimRdmaRegistrations> before;
      for (const Rank rank : {0u, 1u}) {
        before.push_back(ranks.world->fabric.registrations(rank));
        operations.push_back(
            ranks.submit(rank, Collective::kAllreduce, std::as_writable_bytes(memory[rank])));
      }
      ASSERT_TRUE(ranks.run_until_done(operations, 64 * kMib));
      for (const Rank rank : {0u, 1u}) {
        EXPECT_EQ(std::ranges::count(memory[rank], static_cast<float>(2 << round)),
                  std::ssize(memory[rank]));
        const SimRdmaRegistrations& after = ranks.world->fabric.registrations(rank);
        if (round == 0) continue;
        EXPECT_EQ(after.calls, before[rank].calls) << bytes;
      }
    }
    std::array<uint64_t, 2> held{};
    for (const Rank rank : {0u, 1u}) held[rank] = ranks.world->fabric.registrations(rank).bytes;
    blocks.clear();
    EXPECT_TRUE(ranks.cluster->run([&] {
      return ranks.world->fabric.registrations(0).bytes + bytes <= held[0] &&
             ranks.world->fabric.registrations(1).bytes + bytes <= held[1];
    })) << "what is freed is not registered for long";
  }
}

// Ranks of one host reach each other through its memory, which needs no registration.
TEST(Registration, ScratchIsRegisteredAlsoBesideSharedMemory) {
  EventQueue queue;
  SimNetwork network(queue, 1, {});
  SimRdmaFabric devices(queue);
  MemoryFabric memory(queue);
  auto udp = std::make_unique<DatagramTransport>(network.add_endpoint(), ConnectionOptions());
  RdmaDevices device;
  device.push_back(devices.add_device());
  auto rc = MakeRcTransport(std::move(udp), std::move(device), RcOptions());
  const auto both = std::make_unique<SwitchingTransport>(
      std::move(rc), std::make_unique<MemoryDevice>(memory), MemoryWorld::Options(), "");
  const LocalSlice scratch = both->memory().allocate(1 << 16).take();
  EXPECT_EQ(devices.registrations(0).bytes, 1u << 16);
  both->memory().free(scratch);
  EXPECT_EQ(devices.registrations(0).bytes, 0u);
}

}  // namespace
}  // namespace rocecoll
