// SPDX-License-Identifier: Apache-2.0
// A long cable: takes the Ethernet frames of each of two TAP devices and hands them to the other
// one after a delay. delay_line.py lays it; the arguments are
//
//   DEVICE DEVICE COUNTERS DELAY_US JITTER_US REORDER_PERCENT FRAME_BYTES MOST_FRAMES MOST_BYTES
//
// A frame waits DELAY_US and up to JITTER_US more, drawn for it alone, or not at all with a chance
// of REORDER_PERCENT. So many frames, and bytes of memory, may wait each way; what finds no room is
// dropped. The file COUNTERS has two 64-bit numbers for each device, of what came from it: frames,
// and how many of them were dropped. Says `ready` once it carries frames, and ends with its parent.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"

namespace {

constexpr int kFramesAtOnce = 64;  // of one way, before the other one has its turn
// A timer for each frame would take more time than the frames: what is due is handed on so much
// later at most, with all that is due by then.
constexpr int64_t kSlackNs = 50'000;
constexpr uint64_t kSeed = 79;  // of the first way; the same packets skip the delay in each run

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "delay_line: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

int Checked(int result, const std::string& what) {
  if (result < 0) Fail(what);
  return result;
}

int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

struct Settings {
  int64_t delay_ns, jitter_ns;
  double reorder_chance;
  size_t frame_bytes, most_frames, most_bytes;
};

struct Counters {
  volatile uint64_t came, dropped;
};

// The frames from one device to the other, in the order in which they are due.
class Way {
 public:
  Way(int from, int to, const Settings& settings, Counters* counters, uint64_t seed)
      : from_(from),
        to_(to),
        settings_(settings),
        counters_(counters),
        random_(seed),
        buffer_(settings.frame_bytes) {}

  // Takes what has come, up to kFramesAtOnce; false once nothing more is there.
  bool Take(int64_t now_ns) {
    for (int count = 0; count < kFramesAtOnce; ++count) {
      const ssize_t bytes = read(from_, buffer_.data(), buffer_.size());
      if (bytes <= 0) {
        if (bytes < 0 && errno != EAGAIN && errno != EINTR) Fail("read");
        return false;
      }
      counters_->came = counters_->came + 1;
      Keep(static_cast<size_t>(bytes), now_ns);
    }
    return true;
  }

  // Hands on what is due.
  void Pass(int64_t now_ns) {
    while (due_ns() <= now_ns) {
      std::pop_heap(waiting_.begin(), waiting_.end());
      const std::vector<char> data = std::move(waiting_.back().data);
      waiting_.pop_back();
      if (write(to_, data.data(), data.size()) < 0) Drop();
      memory_bytes_ -= MemoryBytes(data.size());
    }
  }

  // Of the first frame; INT64_MAX without one.
  int64_t due_ns() const { return waiting_.empty() ? INT64_MAX : waiting_.front().due_ns; }

 private:
  struct Frame {
    int64_t due_ns;
    uint64_t number;
    std::vector<char> data;
    bool operator<(const Frame& other) const {  // the first of a heap is the largest
      return due_ns != other.due_ns ? due_ns > other.due_ns : number > other.number;
    }
  };

  // Of a frame that waits, with what the heap and the allocator need for it.
  static size_t MemoryBytes(size_t bytes) { return bytes + sizeof(Frame) + 2 * sizeof(void*); }

  // What the buffer begins with.
  void Keep(size_t bytes, int64_t now_ns) {
    const size_t memory_bytes = memory_bytes_ + MemoryBytes(bytes);
    if (waiting_.size() >= settings_.most_frames || memory_bytes > settings_.most_bytes) {
      Drop();
      return;
    }
    memory_bytes_ = memory_bytes;
    std::vector<char> data(buffer_.data(), buffer_.data() + bytes);
    waiting_.push_back({now_ns + DelayNs(), number_++, std::move(data)});
    std::push_heap(waiting_.begin(), waiting_.end());
  }

  int64_t DelayNs() {
    if (random_.chance(settings_.reorder_chance)) return 0;
    if (settings_.jitter_ns == 0) return settings_.delay_ns;
    const auto most = static_cast<uint64_t>(settings_.jitter_ns);
    return settings_.delay_ns + static_cast<int64_t>(random_.below(most + 1));
  }

  void Drop() { counters_->dropped = counters_->dropped + 1; }

  const int from_, to_;
  const Settings settings_;
  Counters* const counters_;
  rocecoll::Random random_;
  std::vector<char> buffer_;
  std::vector<Frame> waiting_;  // a heap
  size_t memory_bytes_ = 0;
  uint64_t number_ = 0;
};

int OpenTap(const char* name) {
  const int fd = Checked(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), "/dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  Checked(ioctl(fd, TUNSETIFF, &request), name);
  return fd;
}

Counters* MapCounters(const char* path) {
  const size_t bytes = 2 * sizeof(Counters);
  const int fd = Checked(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644), path);
  Checked(ftruncate(fd, static_cast<off_t>(bytes)), path);
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) Fail(path);
  return static_cast<Counters*>(mapped);
}

void Watch(int poller, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  Checked(epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

void SetTimer(int timer, int64_t due_ns) {
  itimerspec when{};
  when.it_value.tv_sec = due_ns / 1'000'000'000;
  when.it_value.tv_nsec = due_ns % 1'000'000'000;
  Checked(timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, nullptr), "timerfd_settime");
}

[[noreturn]] void Carry(std::array<Way, 2>& ways, const std::array<int, 2>& taps) {
  const int poller = Checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  const int timer =
      Checked(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create");
  for (const int fd : {taps[0], taps[1], timer}) Watch(poller, fd);
  int64_t set_ns = INT64_MAX;
  while (true) {
    std::array<epoll_event, 3> events;
    if (epoll_wait(poller, events.data(), events.size(), -1) < 0 && errno != EINTR) Fail("epoll");
    uint64_t fired = 0;
    if (read(timer, &fired, sizeof fired) > 0) set_ns = INT64_MAX;
    bool more = true;
    while (more) {
      more = false;
      for (Way& way : ways) {
        more |= way.Take(NowNs());
        way.Pass(NowNs());
      }
    }
    const int64_t due_ns = std::min(ways[0].due_ns(), ways[1].due_ns());
    const int64_t wanted_ns = due_ns == INT64_MAX ? due_ns : std::max(due_ns, NowNs() + kSlackNs);
    if (wanted_ns < set_ns) SetTimer(timer, set_ns = wanted_ns);  // else it fires soon enough
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 10) {
    std::fputs("delay_line: takes nine arguments\n", stderr);
    return 2;
  }
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  const Settings settings{
      .delay_ns = std::atoll(words[4]) * 1000,
      .jitter_ns = std::atoll(words[5]) * 1000,
      .reorder_chance = std::atof(words[6]) / 100,
      .frame_bytes = static_cast<size_t>(std::atoll(words[7])),
      .most_frames = static_cast<size_t>(std::atoll(words[8])),
      .most_bytes = static_cast<size_t>(std::atoll(words[9])),
  };
  const std::array<int, 2> taps{OpenTap(words[1]), OpenTap(words[2])};
  Counters* const counters = MapCounters(words[3]);
  std::array<Way, 2> ways{Way(taps[0], taps[1], settings, counters, kSeed),
                          Way(taps[1], taps[0], settings, counters + 1, kSeed + 1)};
  std::puts("ready");
  std::fflush(stdout);
  Carry(ways, taps);
}
