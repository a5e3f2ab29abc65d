// SPDX-License-Identifier: Apache-2.0
// Where a process can be reached, and which process that is. Opaque to everything but the port that
// made it: it is copied into the Store's record and handed to the same kind of port at the other
// end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/check.h"

namespace rocecoll {

// Whether RoCE may carry what goes to the process at an address. If this is unknown, the two ends
// find out by an attempt; if it is known, both ends know it.
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
  // The random number of the process that announced this address, or 0 if that is unknown. Another
  // process may have the address by now: equal addresses may belong to different processes.
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
  // Compares only where the process is reached.
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
