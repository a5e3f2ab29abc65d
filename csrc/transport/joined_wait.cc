// SPDX-License-Identifier: Apache-2.0
#include "transport/joined_wait.h"

#include <sys/epoll.h>

#include "base/system_error.h"

namespace rocecoll {

Status JoinedWait::join(WaitHandle first, WaitHandle second) {
  handle_ = first.fd < 0 ? second : first;
  if (first.fd < 0 || second.fd < 0) return {};
  epoll_fd_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  for (const int fd : {first.fd, second.fd}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (!epoll_fd_.valid() || ::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
      return SystemError("cannot wait for UDP and a faster path at once (epoll)");
    }
  }
  handle_.fd = epoll_fd_;
  return {};
}

}  // namespace rocecoll
