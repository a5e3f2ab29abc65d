// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace rocecoll {

// Takes what is written into an exposed slice in place of the slice's memory.
//
// A way that has the bytes at hand in their order may give them to this and spare the copy into the
// slice: from the first on, each once, in multiples of kPieceBytes until the last ones. It may stop
// at any time, for good. When the slice has landed, what has not been taken lies in it, at its
// place; the memory of what has been taken, or is about to be, was the way's to use.
class Intake {
 public:
  static constexpr size_t kPieceBytes = 64;

  virtual ~Intake() = default;
  virtual void take(std::span<const std::byte> bytes) = 0;
  virtual size_t taken_bytes() const = 0;
};

}  // namespace rocecoll
