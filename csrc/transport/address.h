// SPDX-License-Identifier: Apache-2.0
// Where a process can be reached, and which process that is. Opaque above the port that made it:
// copied into the Store's record, handed back to the same kind of port at the other end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/check.h"

namespace rocecoll {

// What is known of the process at an address: whether RoCE may carry what goes there. Where that is
// not known the two ends find out by an attempt; what is known, both know.
enum class Roce : uint8_t { kUnknown, kUsable, kNone };

class Address {
 public:
  static constexpr size_t kMaxBytes = 64;

  Address() = default;
  // `text` is what messages show to people, e.g. "10.0.0.3:40123".
  Address(std::span<const std::byte> bytes, std::string text)
      : size_(static_cast<uint8_t>(bytes.size())), text_(std::move(text)) {
    ROCECOLL_CHECK(bytes.size() <= kMaxBytes);
    for (size_t i = 0; i < bytes.size(); ++i) bytes_[i] = bytes[i];
  }

  std::span<const std::byte> bytes() const { return {bytes_.data(), size_}; }
  const std::string& text() const { return text_; }
  bool empty() const { return size_ == 0; }
  // A random number of the process that told this address, or 0 where nobody knows: another process
  // may have the address by now. Equal addresses may be of different processes.
  uint64_t process() const { return process_; }
  Address of_process(uint64_t process) const {
    Address address = *this;
    address.process_ = process;
    return address;
  }
  Roce roce() const { return roce_; }
  Address with_roce(Roce roce) const {
    Address address = *this;
    address.roce_ = roce;
    return address;
  }
  // Of the place alone.
  friend bool operator==(const Address& a, const Address& b) {
    return a.size_ == b.size_ && a.bytes_ == b.bytes_;
  }

 private:
  std::array<std::byte, kMaxBytes> bytes_{};
  uint8_t size_ = 0;
  std::string text_;
  uint64_t process_ = 0;
  Roce roce_ = Roce::kUnknown;
};

}  // namespace rocecoll
