// SPDX-License-Identifier: Apache-2.0
// Memory that processes of one host share: a memfd, so that it has no name, leaves nothing behind
// and does not depend on the size of /dev/shm.
#pragma once

#include <cstddef>
#include <span>

#include "base/descriptor.h"
#include "base/status.h"

namespace rocecoll {

class SharedSegment {
 public:
  SharedSegment() = default;
  ~SharedSegment();
  SharedSegment(SharedSegment&& other) noexcept { *this = std::move(other); }
  SharedSegment& operator=(SharedSegment&& other) noexcept;

  // Zeros, all of it there: a write cannot fail later for want of memory. kNetwork with the reason
  // where the system refuses.
  static Result<SharedSegment> Create(size_t bytes);
  // One that a peer has created. Refused unless it has `bytes` and nobody can make it smaller, as
  // an access behind its end would kill this process.
  static Result<SharedSegment> Map(Descriptor descriptor, size_t bytes);

  bool mapped() const { return data_ != nullptr; }
  std::byte* data() const { return data_; }
  // To hand over; -1 in one that a peer has created.
  int descriptor() const { return descriptor_; }
  void close_descriptor() { descriptor_ = Descriptor(); }

 private:
  Status map(int descriptor, size_t bytes);

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  Descriptor descriptor_;
};

}  // namespace rocecoll
