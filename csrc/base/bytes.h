// SPDX-License-Identifier: Apache-2.0
// Little-endian fields in byte buffers, with bounds checks: the only way to read bytes from the
// wire.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/check.h"

namespace rocecoll {

static_assert(std::endian::native == std::endian::little,
              "the wire is little endian; a big-endian port must swap in LoadLe and StoreLe");

template <typename T>
T LoadLe(const std::byte* from) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <typename T>
void StoreLe(std::byte* to, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(to, &value, sizeof(T));
}

// Reads fields one after the other. A read past the end returns zero and makes ok() false for good,
// so that a parser checks only once, at its end.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T Read() {
    if (!ok_ || bytes_.size() - position_ < sizeof(T)) {
      ok_ = false;
      return T{};
    }
    T value = LoadLe<T>(bytes_.data() + position_);
    position_ += sizeof(T);
    return value;
  }
  std::span<const std::byte> ReadBytes(size_t count) {
    if (!ok_ || bytes_.size() - position_ < count) {
      ok_ = false;
      return {};
    }
    auto field = bytes_.subspan(position_, count);
    position_ += count;
    return field;
  }
  bool ok() const { return ok_; }
  size_t remaining() const { return ok_ ? bytes_.size() - position_ : 0; }

 private:
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
  bool ok_ = true;
};

// Writes fields one after the other. Writing past the end is a bug: callers check room() first.
class ByteWriter {
 public:
  explicit ByteWriter(std::span<std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  void Write(T value) {
    ROCECOLL_CHECK(room() >= sizeof(T));
    StoreLe(bytes_.data() + position_, value);
    position_ += sizeof(T);
  }
  void WriteBytes(std::span<const std::byte> from) {
    ROCECOLL_CHECK(room() >= from.size());
    if (!from.empty()) std::memcpy(bytes_.data() + position_, from.data(), from.size());
    position_ += from.size();
  }
  size_t room() const { return bytes_.size() - position_; }
  size_t size() const { return position_; }
  std::span<std::byte> written() const { return bytes_.first(position_); }

 private:
  std::span<std::byte> bytes_;
  size_t position_ = 0;
};

}  // namespace rocecoll
