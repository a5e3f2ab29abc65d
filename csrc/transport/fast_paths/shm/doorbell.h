// SPDX-License-Identifier: Apache-2.0
// How processes of one host tell each other that there is something to look at. A process has a
// page, shared with all its peers, with a bit for each of its paths. It finds the few that rang
// without a walk over all paths. If it sleeps, the first peer that rings wakes it.
//
// Peers are not trusted: whatever they write here costs at most a useless look.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include "transport/fast_paths/shm/shared_segment.h"

namespace rocecoll {

struct DoorbellPage {
  static constexpr uint32_t kWords = 64;
  static constexpr uint32_t kSlots = kWords * 64;
  static constexpr size_t kBytes = 4096;

  alignas(64) std::atomic<uint32_t> sleeping;
  // A bit for each word that may be set, then the words. The first 448 paths are in one cache line.
  alignas(64) std::atomic<uint64_t> rung_words;
  std::atomic<uint64_t> words[kWords];
};
static_assert(sizeof(DoorbellPage) <= DoorbellPage::kBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// This process's own.
class Doorbell {
 public:
  static Result<Doorbell> Create() {
    auto segment = SharedSegment::Create(DoorbellPage::kBytes);
    if (!segment.ok()) return segment.status();
    return Doorbell(segment.take());
  }

  int descriptor() const { return segment_.descriptor(); }
  // Calls visit(slot) for the slots that have been rung since the last call.
  template <typename Visit>
  void take_rung(Visit&& visit) {
    if (page().rung_words.load(std::memory_order_relaxed) == 0) return;
    for (uint64_t words = page().rung_words.exchange(0); words != 0; words &= words - 1) {
      const auto word = static_cast<uint32_t>(std::countr_zero(words));
      for (uint64_t bits = page().words[word].exchange(0); bits != 0; bits &= bits - 1) {
        visit(word * 64 + static_cast<uint32_t>(std::countr_zero(bits)));
      }
    }
  }
  // Call before going to sleep. False: a peer has rung. No wake-up is lost because all four
  // accesses, this store and this load and those of ring(), are sequentially consistent.
  bool fall_asleep() {
    page().sleeping.store(1);
    return page().rung_words.load() == 0;
  }
  void awake() { page().sleeping.store(0, std::memory_order_relaxed); }

 private:
  explicit Doorbell(SharedSegment segment) : segment_(std::move(segment)) {
    new (segment_.data()) DoorbellPage();
  }
  DoorbellPage& page() const { return *reinterpret_cast<DoorbellPage*>(segment_.data()); }

  SharedSegment segment_;
};

// A peer's.
class PeerDoorbell {
 public:
  explicit PeerDoorbell(SharedSegment segment) : segment_(std::move(segment)) {}

  // True if the peer sleeps; the caller must wake it.
  bool ring(uint32_t slot) {
    DoorbellPage& page = *reinterpret_cast<DoorbellPage*>(segment_.data());
    page.words[slot / 64].fetch_or(uint64_t{1} << (slot % 64));
    page.rung_words.fetch_or(uint64_t{1} << (slot / 64));
    return page.sleeping.load() != 0 && page.sleeping.exchange(0) != 0;
  }

 private:
  SharedSegment segment_;
};

}  // namespace rocecoll
