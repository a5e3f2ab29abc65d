// SPDX-License-Identifier: Apache-2.0
// What one of many ranks in a process allocates, and which pages of that it touches: memory and
// work in numbers that no load of the machine changes. Replaces operator new, so one file of a
// program includes it. For one thread.
#pragma once

#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "base/check.h"

namespace rocecoll {

class TrackedHeap {
 public:
  // What is allocated while one exists, is tracked for as long as it lives.
  class Scope {
   public:
    Scope() {
      if (works()) instance().begin_scope();
    }
    ~Scope() {
      if (works()) --instance().scopes_;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
  };

  static constexpr bool works() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;  // the sanitizer has the heap
#else
    return true;
#endif
  }
  static TrackedHeap& instance() {
    static constinit TrackedHeap heap;
    return heap;
  }

  size_t live_bytes() const { return live_bytes_; }
  // The most since reset_peak().
  size_t peak_bytes() const { return peak_bytes_; }
  void reset_peak() { peak_bytes_ = live_bytes_; }

  // Notices the first access to each page of all that has been tracked so far.
  void fence() {
    fenced_bytes_ = (static_cast<size_t>(top_ - begin_) + kPageBytes - 1) / kPageBytes * kPageBytes;
    top_ = begin_ + fenced_bytes_;
    touched_pages_ = 0;
    struct sigaction action{};
    action.sa_sigaction = OnAccess;
    action.sa_flags = SA_SIGINFO;
    ROCECOLL_CHECK(::sigaction(SIGSEGV, &action, &before_) == 0);
    ROCECOLL_CHECK(::mprotect(begin_, fenced_bytes_, PROT_NONE) == 0);
  }
  // Ends that. How many pages were touched.
  size_t lift_fence() {
    ROCECOLL_CHECK(::mprotect(begin_, fenced_bytes_, PROT_READ | PROT_WRITE) == 0);
    ROCECOLL_CHECK(::sigaction(SIGSEGV, &before_, nullptr) == 0);
    return touched_pages_;
  }

  // For operator new and delete.
  void* allocate(size_t bytes) {
    if (scopes_ == 0) return std::malloc(std::max<size_t>(bytes, 1));
    const size_t whole = (sizeof(Header) + bytes + 15) / 16 * 16;
    if (top_ + whole > begin_ + kArenaBytes) return nullptr;
    auto* header = new (top_) Header{whole};
    top_ += whole;
    live_bytes_ += whole;
    peak_bytes_ = std::max(peak_bytes_, live_bytes_);
    return header + 1;
  }
  void free(void* memory) {
    if (begin_ == nullptr || memory < begin_ || memory >= begin_ + kArenaBytes) {
      std::free(memory);
    } else {
      live_bytes_ -= (static_cast<Header*>(memory) - 1)->bytes;
    }
  }

 private:
  // Of addresses, none of which is used twice; what is touched takes memory.
  static constexpr size_t kArenaBytes = size_t{8} << 30;
  static constexpr size_t kPageBytes = 4096;
  // In front of each allocation, and as much as malloc() takes for itself.
  struct alignas(16) Header {
    size_t bytes = 0;
  };

  void begin_scope() {
    ++scopes_;
    if (begin_ != nullptr) return;
    void* pages = ::mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ROCECOLL_CHECK(pages != MAP_FAILED);
    begin_ = top_ = static_cast<char*>(pages);
  }
  static void OnAccess(int, siginfo_t* info, void*) {
    TrackedHeap& heap = instance();
    char* const at = static_cast<char*>(info->si_addr);
    if (at < heap.begin_ || at >= heap.begin_ + heap.fenced_bytes_) {
      ::sigaction(SIGSEGV, &heap.before_, nullptr);  // it happens again, and is not ours
      return;
    }
    ++heap.touched_pages_;
    char* const page = heap.begin_ + (at - heap.begin_) / kPageBytes * kPageBytes;
    ::mprotect(page, kPageBytes, PROT_READ | PROT_WRITE);
  }

  char* begin_ = nullptr;
  char* top_ = nullptr;
  int scopes_ = 0;
  size_t live_bytes_ = 0;
  size_t peak_bytes_ = 0;
  size_t fenced_bytes_ = 0;
  size_t touched_pages_ = 0;
  struct sigaction before_{};
};

}  // namespace rocecoll

void* operator new(size_t bytes) {
  if (void* memory = rocecoll::TrackedHeap::instance().allocate(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { rocecoll::TrackedHeap::instance().free(memory); }
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
