// SPDX-License-Identifier: Apache-2.0
// The processor's floating-point mode belongs to the thread: torch.set_flush_denormal changes it
// for the thread that waits, while the progress thread keeps the default. A reduction may run on
// either thread and gives the same bits on both.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace rocecoll {

// Sets the mode for its lifetime: round to nearest, keep denormals, no traps. Restores the thread's
// mode.
class FloatMode {
 public:
  FloatMode() : saved_(Get()), changed_((saved_ & ~kStatus) != kDefault) {
    if (changed_) Set(kDefault);
  }
  ~FloatMode() {
    if (changed_) Set(saved_);
  }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr uint64_t kDefault = 0x1f80;  // MXCSR: all exceptions masked
  static constexpr uint64_t kStatus = 0x3f;     // flags of past exceptions
  static uint64_t Get() { return _mm_getcsr(); }
  static void Set(uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
  static constexpr uint64_t kDefault = 0;  // FPCR; the flags of past exceptions are in FPSR
  static constexpr uint64_t kStatus = 0;
  static uint64_t Get() {
    uint64_t mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void Set(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
  static constexpr uint64_t kDefault = 0;  // this processor has no mode to change
  static constexpr uint64_t kStatus = 0;
  static uint64_t Get() { return kDefault; }
  static void Set(uint64_t) {}
#endif
  uint64_t saved_;
  bool changed_;
};

}  // namespace rocecoll
