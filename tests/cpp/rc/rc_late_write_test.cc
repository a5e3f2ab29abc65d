// SPDX-License-Identifier: Apache-2.0
// A peer keeps the keys that it was told, and its device goes on when its process does not. What it
// writes after its link has ended here finds no queue pair, whoever has the memory by then.
#include <functional>
#include <span>

#include "base/lasting_memory.h"
#include "rc/rc_pair.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr size_t kBytes = 100'000;

// Where a slice that the peer may write lies.
enum class Memory : int { kBlock, kScratch, kAnnounced, kLasting };

bool IsAnnounced(Memory kind) { return kind == Memory::kAnnounced || kind == Memory::kLasting; }

class RcLateWrite : public testing::TestWithParam<std::tuple<Memory, bool>> {
 protected:
  // Of rank 0, which has a link to each of the others.
  struct Ranks : RcWorld {
    Ranks(Memory kind, const RcWorldOptions& options) : RcWorld(3, options) {
      for (const uint32_t peer : {1u, 2u}) {
        to.push_back(open(0, peer));
        from.push_back(open(peer, 0));
      }
      EXPECT_TRUE(run([&] { return transports[0]->links_on_path() == 2; }));
      if (kind == Memory::kLasting) {
        lasting = LastingMemory::Allocate(passing.size());
        callers = {lasting.get(), passing.size()};
      }
      slice = {callers.data(), kBytes, kUnregistered};
      if (kind == Memory::kScratch) slice = scratch = memory().allocate(kBytes).take();
      if (IsAnnounced(kind)) announce_again();
    }
    ~Ranks() override {
      for (Link* link : to) {
        if (link != nullptr) link->close(Status(StatusCode::kAborted, "the end"));
      }
      if (scratch.data != nullptr) memory().free(scratch);
      if (scratch.data == nullptr) memory().withdraw(slice.registration);
    }
    MemoryDomain& memory() { return transports[0]->memory(); }
    // As the next operation on the same tensor does.
    void announce_again() {
      memory().withdraw(slice.registration);
      slice.registration = memory().announce(callers, /*writable=*/true);
    }
    // Rank 1 writes, and its process stops; rank 0 has given the link up before much of it came.
    RemoteSlice write_that_comes_late() {
      const RemoteSlice exposed = to[0]->expose(slice, 1);
      EXPECT_TRUE(from[0]->write(exposed, {stale.data(), kBytes, kUnregistered}, 1));
      run([] { return false; }, microseconds(20), {0, 2});
      fabric.cut(0, 1);
      run([] { return false; }, microseconds(10), {1});
      EXPECT_TRUE(record(to[0]).landed.empty());
      std::exchange(to[0], nullptr)->close(Status(StatusCode::kPeerLost, "silent for too long"));
      return exposed;
    }
    // Where the device writes what is exposed.
    static Bytes at(const RemoteSlice& exposed) {
      const auto* data = reinterpret_cast<const std::byte*>(exposed.base);
      return {data, data + kBytes};
    }

    Bytes passing = Bytes(RegisteredMemory::kLeastPassingBytes);
    LastingMemory::Owner lasting;
    std::span<std::byte> callers = passing;
    Bytes stale = RandomBytes(kBytes, 1);
    Bytes fresh = RandomBytes(kBytes, 2);
    LocalSlice slice;
    LocalSlice scratch;
    std::vector<Link*> to, from;
  };

  static RcWorldOptions options() {
    RcWorldOptions options;
    options.rdma.bytes_per_second = 1e9;
    if (!std::get<1>(GetParam())) options.limits = SimRdmaFabric::OwnReceiveLimits();
    return options;
  }
  static Memory kind() { return std::get<0>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(All, RcLateWrite,
                         testing::Combine(testing::Values(Memory::kBlock, Memory::kScratch,
                                                          Memory::kAnnounced, Memory::kLasting),
                                          testing::Bool()));

// The memory is the owner's again as close() returns, before anything else has its turn.
TEST_P(RcLateWrite, DoesNotLandOnceTheLinkIsClosed) {
  Ranks ranks(kind(), options());
  const RemoteSlice exposed = ranks.write_that_comes_late();
  auto* data = reinterpret_cast<std::byte*>(exposed.base);
  std::fill_n(data, kBytes, std::byte{7});
  ranks.fabric.mend(0, 1);
  ranks.queue.run_until(ranks.now() + milliseconds(50));
  EXPECT_TRUE(Ranks::at(exposed) == Bytes(kBytes, std::byte{7}));
}

// The device of the stopped process repeats its request while somebody else writes there.
TEST_P(RcLateWrite, DoesNotLandInWhatAnotherLinkHasExposed) {
  Ranks ranks(kind(), options());
  const RemoteSlice before = ranks.write_that_comes_late();
  if (IsAnnounced(kind())) ranks.announce_again();
  const RemoteSlice exposed = ranks.to[1]->expose(ranks.slice, 2);
  ASSERT_EQ(exposed.base, before.base) << "it is not the same memory";
  const bool same_key = static_cast<uint32_t>(exposed.key) == static_cast<uint32_t>(before.key);
  ASSERT_EQ(same_key, !IsAnnounced(kind()));
  ASSERT_TRUE(ranks.from[1]->write(exposed, {ranks.fresh.data(), kBytes, kUnregistered}, 2));
  const auto landed = [&] { return ranks.transferred(ranks.from[1], ranks.to[1], 1); };
  ASSERT_TRUE(ranks.run(landed, milliseconds(50), {1}));
  ranks.fabric.mend(0, 1);
  ranks.run([] { return false; }, milliseconds(50), {1});
  EXPECT_TRUE(Ranks::at(exposed) == ranks.fresh);
  EXPECT_FALSE(ranks.is_down(ranks.from[1])) << "the other link has nothing to do with it";
  ranks.run_for(milliseconds(50));
  EXPECT_TRUE(ranks.is_down(ranks.from[0]));
}

}  // namespace
}  // namespace rocecoll
