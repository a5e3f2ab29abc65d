// SPDX-License-Identifier: Apache-2.0
// How long a cache line takes to another core and back: what shared memory is at best between two
// ranks, and what a virtual machine does not tell (its cores may be two threads of one real core
// now, and far apart a minute later).
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <thread>

namespace {

// A tenth of a second at most, and enough that an interrupt is not noticed.
constexpr int kRoundTrips = 200'000;

bool PinTo(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  return pthread_setaffinity_np(pthread_self(), sizeof(cores), &cores) == 0;
}

}  // namespace

// Nanoseconds; negative if the cores are not ours to use.
extern "C" double CacheLineRoundTripNs(int here, int there) {
  alignas(64) std::atomic<int> line{0};
  // Two that take turns on one core would each wait for the end of the other's time slice.
  std::latch pinned(2);
  std::atomic<bool> refused{false};
  const auto pin = [&](int core) {
    if (!PinTo(core)) refused = true;
    pinned.arrive_and_wait();
    return !refused;
  };
  using Clock = std::chrono::steady_clock;
  Clock::duration taken{};
  std::thread answers([&] {
    if (!pin(there)) return;
    for (int i = 0; i < kRoundTrips; ++i) {
      while (line.load() != 2 * i + 1) {
      }
      line.store(2 * i + 2);
    }
  });
  std::thread asks([&] {
    if (!pin(here)) return;
    const auto begin = Clock::now();
    for (int i = 0; i < kRoundTrips; ++i) {
      line.store(2 * i + 1);
      while (line.load() != 2 * i + 2) {
      }
    }
    taken = Clock::now() - begin;
  });
  asks.join();
  answers.join();
  if (refused) return -1;
  return std::chrono::duration<double, std::nano>(taken).count() / kRoundTrips;
}
