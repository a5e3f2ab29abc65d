// SPDX-License-Identifier: Apache-2.0
// What the kernel's UDP allows at best: a sum of float32 between two ranks over sockets that lose
// nothing, without headers, checksums, acknowledgements or any word about the operation.
// udp_peer.py makes the sockets and calls it in turn with those who have all that.
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <vector>

namespace {

constexpr size_t kMostAtOnceBytes = 65536;  // what one call of the kernel takes or gives
constexpr auto kPatience = std::chrono::seconds(5);
constexpr int kLooksPerClock = 1024;

struct Way {
  int fd;
  size_t chunk_bytes;   // of one send: whole datagrams, and whole elements in each
  size_t window_bytes;  // how far to be ahead of the other rank
};

// Sends and takes until all is there; take(fd, received) takes one piece. Both ranks send about the
// same amount, so what has come in tells how far the other one is: no more than two windows and a
// chunk can wait in a socket, and nobody needs to tell what it has taken. False if nothing moves
// any more.
template <typename Take>
bool Exchange(const Way& way, const char* out, size_t out_bytes, size_t in_bytes, Take take) {
  size_t sent = 0, received = 0;
  int looks = 0;
  auto last = std::chrono::steady_clock::now();
  while (sent < out_bytes || received < in_bytes) {
    bool moved = false;
    if (sent < out_bytes && sent < received + way.window_bytes) {
      const size_t bytes = std::min(way.chunk_bytes, out_bytes - sent);
      if (send(way.fd, out + sent, bytes, 0) != static_cast<ssize_t>(bytes)) return false;
      sent += bytes;
      moved = true;
    }
    if (received < in_bytes) {
      const ssize_t bytes = take(received);
      if (bytes < 0 && errno != EAGAIN) return false;
      if (bytes > 0) {
        received += static_cast<size_t>(bytes);
        moved = true;
      }
    }
    if (!moved) sched_yield();
    if (++looks % kLooksPerClock != 0 && moved) continue;
    const auto now = std::chrono::steady_clock::now();
    if (moved) last = now;
    if (now - last > kPatience) return false;
  }
  return true;
}

// Adds what comes in to `sum`, from a buffer that stays in the cache.
bool ExchangeAndAdd(const Way& way, const float* out, size_t out_bytes, float* sum, size_t bytes) {
  alignas(64) static float piece[kMostAtOnceBytes / sizeof(float)];
  return Exchange(way, reinterpret_cast<const char*>(out), out_bytes, bytes, [&](size_t received) {
    const size_t most = std::min(sizeof piece, bytes - received);
    const ssize_t taken = recv(way.fd, piece, most, MSG_DONTWAIT);
    float* const place = sum + received / sizeof(float);
    for (size_t i = 0; taken > 0 && i < static_cast<size_t>(taken) / sizeof(float); ++i) {
      place[i] += piece[i];
    }
    return taken;
  });
}

bool ExchangeInPlace(const Way& way, const float* out, size_t out_bytes, float* in, size_t bytes) {
  return Exchange(way, reinterpret_cast<const char*>(out), out_bytes, bytes, [&](size_t received) {
    return recv(way.fd, reinterpret_cast<char*>(in) + received, bytes - received, MSG_DONTWAIT);
  });
}

}  // namespace

// The sum of both ranks' `data`, in place: 0, or -1 if a datagram was lost. Each rank adds all of
// it. The other rank may be one call ahead, and the kernel may join datagrams of a socket that
// belong to different calls, so each call takes another socket than the one before.
extern "C" int UdpAllReduceWhole(int fd, size_t chunk_bytes, size_t window_bytes, float* data,
                                 size_t count) {
  static std::vector<float> mine;  // what is sent must not change meanwhile
  mine.assign(data, data + count);
  const Way way{fd, chunk_bytes, window_bytes};
  const size_t bytes = count * sizeof(float);
  return ExchangeAndAdd(way, mine.data(), bytes, data, bytes) ? 0 : -1;
}

// The same where bytes cost more than steps: each rank adds one half, and hands it back over
// another socket.
extern "C" int UdpAllReduceHalves(int there, int back, size_t chunk_bytes, size_t window_bytes,
                                  int rank, float* data, size_t count) {
  const size_t half = count / 2;
  float* const own = rank == 0 ? data : data + half;
  float* const other = rank == 0 ? data + half : data;
  const size_t own_bytes = (rank == 0 ? half : count - half) * sizeof(float);
  const size_t other_bytes = count * sizeof(float) - own_bytes;
  const bool done =
      ExchangeAndAdd({there, chunk_bytes, window_bytes}, other, other_bytes, own, own_bytes) &&
      ExchangeInPlace({back, chunk_bytes, window_bytes}, own, own_bytes, other, other_bytes);
  return done ? 0 : -1;
}
