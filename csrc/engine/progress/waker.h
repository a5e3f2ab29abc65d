// SPDX-License-Identifier: Apache-2.0
// Sleeping on descriptors, with a way to be woken by another thread.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "base/system_error.h"
#include "base/time.h"
#include "transport/wait_handle.h"

namespace rocecoll {

class Waker {
 public:
  // kNetwork when the process has no descriptor left.
  static Result<Waker> Open() {
    Descriptor fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!fd.valid()) return SystemError("cannot make a thread that can be woken (eventfd)");
    Descriptor alarm(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (!alarm.valid()) return SystemError("cannot make a thread that can be woken (timerfd)");
    return Waker(std::move(fd), std::move(alarm));
  }

  // Thread safe. Sticky: wakes the sleep() that is under way, else the next one.
  void wake() {
    const uint64_t one = 1;
    // EAGAIN means that the counter is full of wakes that no sleep has taken yet: one is enough.
    const ssize_t written = write(fd_, &one, sizeof(one));
    ROCECOLL_CHECK(written == sizeof(one) || errno == EAGAIN);
  }
  // Thread safe. Ends the sleep() that is under way, else the next one, after `time` at the latest,
  // whatever its limit. For callers with no time to lose, since wake() lets the thread run at once,
  // perhaps on this core. Further calls before a sleep has ended change nothing.
  void wake_in(Duration time) {
    if (!*alarmed_ && !alarmed_->exchange(true)) set_alarm(time);
  }
  // Sleeps until a descriptor of `handle` is readable, wake(), or `limit` has passed. Takes one
  // wake() back, and wake_in().
  void sleep(const WaitHandle& handle, Duration limit) {
    std::array<pollfd, 2 + WaitHandle::kMostDescriptors> fds;
    nfds_t count = 0;
    fds[count++] = {fd_, POLLIN, 0};
    fds[count++] = {alarm_, POLLIN, 0};
    for (const int descriptor : handle.descriptors()) fds[count++] = {descriptor, POLLIN, 0};
    if (limit < Duration{0}) limit = Duration{0};
    timespec timeout;
    timeout.tv_sec = static_cast<time_t>(limit.count() / 1'000'000'000);
    timeout.tv_nsec = static_cast<long>(limit.count() % 1'000'000'000);
    const int ready =
        ppoll(fds.data(), count, limit == Duration::max() ? nullptr : &timeout, nullptr);
    ROCECOLL_CHECK(ready >= 0 || errno == EINTR);
    if (ready > 0 && (fds[0].revents & POLLIN) != 0) {
      uint64_t count = 0;
      const ssize_t taken = read(fd_, &count, sizeof(count));
      ROCECOLL_CHECK(taken == sizeof(count) || errno == EAGAIN);  // another sleeper took it
    }
    if (!*alarmed_) return;
    // In this order: a caller that finds the flag still set has finished its work before the
    // sleeper looks for it.
    set_alarm(Duration{0});
    *alarmed_ = false;
  }

 private:
  Waker(Descriptor fd, Descriptor alarm) : fd_(std::move(fd)), alarm_(std::move(alarm)) {}

  // 0: none.
  void set_alarm(Duration time) {
    itimerspec when{};
    when.it_value.tv_sec = static_cast<time_t>(time.count() / 1'000'000'000);
    when.it_value.tv_nsec = static_cast<long>(time.count() % 1'000'000'000);
    const int set = timerfd_settime(alarm_, 0, &when, nullptr);
    ROCECOLL_CHECK(set == 0);
  }

  Descriptor fd_;
  Descriptor alarm_;  // timerfd
  std::unique_ptr<std::atomic<bool>> alarmed_ = std::make_unique<std::atomic<bool>>(false);
};

}  // namespace rocecoll
