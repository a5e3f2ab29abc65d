// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace rocecoll {

// The bytes of a frame: `head`, then `body`, both lent for the duration of a call. The sender need
// not join them; a callee that keeps them does.
struct FrameBytes {
  FrameBytes() = default;
  FrameBytes(std::span<const std::byte> first, std::span<const std::byte> rest)
      : head(first), body(rest) {}
  template <typename Range>
    requires std::convertible_to<const Range&, std::span<const std::byte>>
  FrameBytes(const Range& whole) : head(whole) {}  // NOLINT(google-explicit-constructor)

  size_t size() const { return head.size() + body.size(); }
  bool empty() const { return size() == 0; }
  // `to` has room for size().
  void copy_to(std::byte* to) const {
    if (!head.empty()) std::memcpy(to, head.data(), head.size());
    if (!body.empty()) std::memcpy(to + head.size(), body.data(), body.size());
  }
  // Appends both to `to`.
  void append_to(std::vector<std::byte>& to) const {
    to.insert(to.end(), head.begin(), head.end());
    to.insert(to.end(), body.begin(), body.end());
  }

  std::span<const std::byte> head;
  std::span<const std::byte> body;
};

}  // namespace rocecoll
