// SPDX-License-Identifier: Apache-2.0
// A hash that goes over the wire, so that every rank must compute the same one.
#pragma once

#include <cstdint>
#include <string_view>

namespace rocecoll {

// FNV-1a, 64 bits: Fowler, Noll, Vo.
class FnvHash {
 public:
  void add(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) add_byte(static_cast<uint8_t>(value >> shift));
  }
  void add(std::string_view text) {
    for (char c : text) add_byte(static_cast<uint8_t>(c));
  }
  uint64_t value() const { return state_; }
  uint32_t folded() const { return static_cast<uint32_t>(state_ ^ (state_ >> 32)); }

 private:
  void add_byte(uint8_t byte) { state_ = (state_ ^ byte) * 0x100000001b3ull; }
  uint64_t state_ = 0xcbf29ce484222325ull;
};

}  // namespace rocecoll
