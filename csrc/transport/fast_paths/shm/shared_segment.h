// SPDX-License-Identifier: Apache-2.0
// Memory that processes of one host share. It is a memfd: it has no name, leaves nothing behind and
// does not depend on the size of /dev/shm.
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

  // Filled with zeros. The first `ready_bytes` have their pages at once, on the NUMA node of this
  // process; whoever writes to the rest first has to wait for a page. kNetwork with the reason if
  // the system refuses.
  static Result<SharedSegment> Create(size_t bytes, size_t ready_bytes);
  static Result<SharedSegment> Create(size_t bytes) { return Create(bytes, bytes); }
  // Maps a segment that a peer has created. Refuses it unless it has `bytes` and cannot be made
  // smaller, because an access behind its end would kill this process.
  static Result<SharedSegment> Map(Descriptor descriptor, size_t bytes);

  bool mapped() const { return data_ != nullptr; }
  std::byte* data() const { return data_; }
  // To hand to a peer. -1 if a peer has created the segment.
  int descriptor() const { return descriptor_; }
  void close_descriptor() { descriptor_ = Descriptor(); }

 private:
  Status map(int descriptor, size_t bytes);

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  Descriptor descriptor_;
};

}  // namespace rocecoll
