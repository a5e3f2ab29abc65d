// SPDX-License-Identifier: Apache-2.0
// The queue pairs of one link, as a FastPath: one or more streams on each rail. A stream is there
// in those generations in which both ends have a queue pair for it. The first stream that is there
// carries the frames, and all that are share the writes, in parts. Messages that were given to a
// stream which is not there, or whose rail has failed, go over another one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "transport/fast_path.h"
#include "transport/fast_paths/rc/rails.h"
#include "transport/fast_paths/rc/rc_stream.h"
#include "transport/fast_paths/rc/registered_memory.h"
#include "transport/rdma.h"

namespace rocecoll {

class RcDevice;

// Parts of fewer bytes only cost more messages.
inline constexpr size_t kMinPartBytes = size_t{32} << 10;

// The number of parts of a write. Both ends must agree, because the receiver counts the parts.
inline size_t PartCount(size_t bytes, size_t streams) {
  return std::clamp<size_t>(bytes / kMinPartBytes, 1, streams);
}
// Where part `index` of `count` begins: on a cache line. It ends where the next one begins.
inline size_t PartBegin(size_t bytes, size_t count, size_t index) {
  return index == count ? bytes : bytes / count * index / 64 * 64;
}

class RcPath final : public FastPath {
 public:
  explicit RcPath(RcDevice& device);
  ~RcPath() override;

  Status prepare() override;
  Ends ends() const override;
  Status connect(const Ends& peer) override;
  bool connected() const override;
  Status probe() override;
  bool proved() const override;
  void start() override;
  void fail() override;
  bool failed() const override;
  bool drained() const override;
  bool complete() const override;
  void destroy() override;
  std::vector<WireBytes> give_up() override;
  PathStats stats() const override { return {"rc", false, traffic_, {}, {}}; }
  std::string carrier() const override;

  Counts received() const override;
  bool acknowledge(const Counts& received) override;
  uint64_t pushed() const override;
  uint64_t unsent() const override;
  bool empty() const override;
  void request_acknowledgement() override;
  void send_heartbeat() override;
  bool push_frame(const FrameBytes& frame) override { return first().push_frame(frame); }
  void push_write(uint32_t number, const RemoteSlice& to, LocalSlice from) override;
  Status pump() override;
  std::vector<uint32_t> take_written() override;
  Result<RemoteSlice> expose(uint32_t number, LocalSlice into) override;
  bool take_back(uint32_t number) override;
  void forget_lent() override;

  // -- for the device
  // Returns what the completion means to the link.
  FastEvent on_completion(size_t rail, const WorkCompletion& completion);
  // The link is done with a frame, and its receive request is posted again.
  void on_reposted(size_t rail, uint32_t queue_pair);
  // The rails on which there are streams.
  Rails::Set rails() const;
  // True if some stream of one of these rails is not there.
  bool lacks(Rails::Set rails) const;

 private:
  struct Exposure {
    LocalSlice into;
    RegisteredMemory::Lease lease;
    size_t parts_landed = 0;
  };

  using Streams = std::vector<std::unique_ptr<RcStream>>;

  Status make_streams();
  Status prepare_rail(size_t rail);
  Status prepare(RcStream& stream);
  void destroy(RcStream& stream);
  void hand_over();
  // The first stream that is there, which carries the frames.
  RcStream& first() const;
  RcStream& stream_for(size_t part) const;
  Rails::Set rails_of(bool (RcStream::*has)() const) const;
  void leave_out(Rails::Set failed);
  RcStream* stream_of(size_t rail, uint32_t queue_pair);
  void on_receive(RcStream& stream, const WorkCompletion& completion, FastEvent& event);
  void on_part_landed(uint32_t number, FastEvent& event);

  RcDevice& device_;
  const uint64_t number_;  // as of RcDevice::number_link()
  Traffic traffic_;
  Streams streams_;
  std::array<uint32_t, RemoteSlice::kMaxPorts> reserved_receives_{};
  // Settled at the first connect(), as is the number of streams. 0: not yet.
  uint16_t peer_credits_ = 0;
  Rails::Set left_out_ = 0;  // the rails that the next generation does without
  bool probing_ = false;
  bool started_ = false;
  std::map<uint64_t, std::unique_ptr<RcWrite>> writes_;  // by age
  uint64_t writes_pushed_ = 0;
  std::unordered_map<uint32_t, Exposure> exposures_;
};

}  // namespace rocecoll
