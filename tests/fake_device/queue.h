// SPDX-License-Identifier: Apache-2.0
// The streams of the fake accelerator: each is a thread that runs what is queued, in order. Also
// what a test steers and watches it with: delays, gates, and a log of the copies.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace fake_device {

constexpr int kDevices = 2;
constexpr int kPoolStreams = 16;  // a device; stream 0 is the default one, those above are new

// A point in a stream that is reached once.
class Marker {
 public:
  void reach();
  bool reached();
  void wait();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
};
using MarkerPtr = std::shared_ptr<Marker>;

class Queue {
 public:
  Queue();
  // `task` must not throw.
  void enqueue(std::function<void()> task);
  // The point after everything queued so far.
  MarkerPtr mark();

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> tasks_;
};

struct StreamKey {
  int device = 0;
  int64_t stream = 0;
  friend auto operator<=>(const StreamKey&, const StreamKey&) = default;
};

// Made at first use, never destroyed: its thread outlives main().
Queue& QueueOf(StreamKey key);
void SynchronizeDevice(int device);

// What tests set, for the copies between host and device that the caller does not wait for. Delays
// are slept by the stream's thread.
void SetCopyDelay(int64_t microseconds);
int64_t CopyDelayMicroseconds();
// From now on copies of `direction` ("d2h", "h2d") wait before they run, all but the first `free`.
void HoldCopies(const std::string& direction, int64_t free);
void ReleaseCopies();
// Blocks the stream's thread while a hold covers this copy.
void PassHold(const std::string& direction);

// From now on whoever asks whether an event has passed waits, as CUDA has them wait while another
// thread synchronizes the device.
void HoldQueries();
void ReleaseQueries();
void PassQueryHold();

// The stream is being captured into a graph, in CUDA's global mode: until the end no thread may do
// what might disturb that, unless it says that it does not.
void BeginCapture(StreamKey key);
// False where somebody has disturbed it.
bool EndCapture();
bool IsCapturing(StreamKey key);
// Throws, and the capture is void, if the calling thread may not do what might disturb one.
void MindCapture();
// As MindCapture(), whatever the thread says, if that stream is being captured.
void MindCaptureOf(StreamKey key);

// How many events there are.
void CountEvents(int64_t change);
int64_t Events();

// A thread is set to a device, other than by a guard that sets it back: where there is none yet
// this makes a context.
void MakeContext(int device);
// The devices for which there is one since the last call.
std::vector<int64_t> TakeContexts();

// "<what> <direction> <bytes> <device>:<stream>" in the order it happened; what is "queue" or
// "done".
void Log(const std::string& what, const std::string& direction, size_t bytes, StreamKey key);
std::vector<std::string> TakeLog();

}  // namespace fake_device
