// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace rocecoll {

// Takes bytes that are written into an exposed slice, in place of the slice's memory.
//
// A path that has the bytes at hand in order may pass them to the intake and save the copy into the
// slice. It passes them from the first byte on, each once, in pieces whose sizes are multiples of
// kPieceBytes except for the last. It may stop at any time, but then for good. When the slice has
// landed, the bytes that were not taken lie in the slice at their place. The part of the slice
// whose bytes were taken, or are about to be, is scratch memory for the path.
class Intake {
 public:
  static constexpr size_t kPieceBytes = 64;

  virtual ~Intake() = default;
  virtual void take(std::span<const std::byte> bytes) = 0;
  virtual size_t taken_bytes() const = 0;
};

}  // namespace rocecoll
