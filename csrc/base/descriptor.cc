// SPDX-License-Identifier: Apache-2.0
#include "base/descriptor.h"

#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <utility>

#include "base/check.h"

namespace rocecoll {

// All descriptors of the process. The list is locked while the process forks, so that the child
// finds it consistent. The child makes only async-signal-safe calls (man 2 fork, pthread_atfork).
struct OpenDescriptors {
  static OpenDescriptors& instance();

  OpenDescriptors() {
    const int watching =
        pthread_atfork([] { instance().mutex.lock(); }, [] { instance().mutex.unlock(); },
                       [] { instance().close_in_child(); });
    ROCECOLL_CHECK(watching == 0);
  }

  void add(Descriptor& descriptor) {
    const std::lock_guard lock(mutex);
    list.push_back(descriptor);
  }
  // Returns the descriptor's number.
  int take(Descriptor& descriptor) {
    const std::lock_guard lock(mutex);
    list.erase(descriptor);
    return std::exchange(descriptor.fd_, -1);
  }
  void close_in_child() {
    while (Descriptor* descriptor = list.front()) {
      list.erase(*descriptor);
      ::close(std::exchange(descriptor->fd_, -1));
    }
    mutex.unlock();
  }

  std::mutex mutex;
  IntrusiveList<Descriptor, &Descriptor::open_> list;
};

// Created when the library is loaded. With creation at first use, a child forked by another thread
// at that moment would wait for ever. Outlives the descriptors of static objects.
static OpenDescriptors& all_open = *new OpenDescriptors;

OpenDescriptors& OpenDescriptors::instance() { return all_open; }

Descriptor::Descriptor(int fd) : fd_(fd) {
  if (fd_ >= 0) OpenDescriptors::instance().add(*this);
}

Descriptor::Descriptor(Descriptor&& other) noexcept { *this = std::move(other); }

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this == &other) return *this;
  if (valid()) ::close(OpenDescriptors::instance().take(*this));
  if (!other.valid()) return *this;
  fd_ = OpenDescriptors::instance().take(other);
  OpenDescriptors::instance().add(*this);
  return *this;
}

Descriptor::~Descriptor() {
  if (valid()) ::close(OpenDescriptors::instance().take(*this));
}

}  // namespace rocecoll
