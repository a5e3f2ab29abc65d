// SPDX-License-Identifier: Apache-2.0
// A file descriptor of this process alone: closed with its owner, and in every child that fork()
// makes. A child that kept a socket would keep its port open, so that peers could not tell the
// death of the parent.
#pragma once

#include "base/intrusive_list.h"

namespace rocecoll {

class Descriptor {
 public:
  Descriptor() = default;
  // Takes it over. Below 0: none.
  explicit Descriptor(int fd);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  // The number, where the system asks for it. -1 without one, and in a forked child: a copy of the
  // number from before names nothing there, or another file.
  operator int() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  friend struct OpenDescriptors;

  int fd_ = -1;
  ListHook<Descriptor> open_;  // while there is one
};

}  // namespace rocecoll
