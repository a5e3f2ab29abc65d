// SPDX-License-Identifier: Apache-2.0
// A file descriptor of this process only: it is closed with its owner, and in every child that
// fork() makes. A child that kept a socket would keep its port open, so that peers could not notice
// the parent's death.
#pragma once

#include "base/intrusive_list.h"

namespace rocecoll {

class Descriptor {
 public:
  Descriptor() = default;
  // Takes ownership of `fd`; a negative number means none.
  explicit Descriptor(int fd);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  // The number, for system calls. -1 if there is none, and in a forked child, where the number from
  // before names nothing, or another file.
  operator int() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  friend struct OpenDescriptors;

  int fd_ = -1;
  ListHook<Descriptor> open_;  // linked while valid
};

}  // namespace rocecoll
