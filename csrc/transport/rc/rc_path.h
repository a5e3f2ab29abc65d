// SPDX-License-Identifier: Apache-2.0
// The queue pairs of one link, as a FastPath: one or more streams, of which the first carries the
// frames and all share the writes, in parts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "transport/fast_path.h"
#include "transport/rc/rc_stream.h"
#include "transport/rc/registered_memory.h"
#include "transport/rdma.h"

namespace rocecoll {

class RcDevice;

// Below this many bytes for each, more parts only cost more messages.
inline constexpr size_t kMinPartBytes = size_t{32} << 10;

// Both ends cut a write alike: the receiver counts the parts.
inline size_t PartCount(size_t bytes, size_t streams) {
  return std::clamp<size_t>(bytes / kMinPartBytes, 1, streams);
}
// Where part `index` of `count` begins, on a cache line; the end is where the next one begins.
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
  void destroy() override;
  std::vector<WireBytes> give_up() override;
  PathStats stats() const override { return {"rc", false, traffic_, {}, {}}; }
  std::string carrier() const override;

  Counts received() const override;
  bool acknowledge(const Counts& received) override;
  uint64_t pushed() const override { return streams_.front()->pushed(); }
  bool empty() const override;
  void request_acknowledgement() override;
  void send_heartbeat() override;
  bool push_frame(std::span<const std::byte> frame) override {
    return streams_.front()->push_frame(frame);
  }
  void push_write(uint32_t number, const RemoteSlice& to, LocalSlice from) override;
  Status pump() override;
  std::vector<uint32_t> take_written() override;
  Result<RemoteSlice> expose(uint32_t number, LocalSlice into) override;
  bool take_back(uint32_t number) override;
  void forget_lent() override;

  // -- for the device
  // What it means to the link.
  FastEvent on_completion(const WorkCompletion& completion);
  // The receive request of a frame that the link is done with is there again.
  void on_reposted(uint32_t queue_pair);

 private:
  struct Exposure {
    LocalSlice into;
    RegisteredMemory::Lease lease;
    size_t parts_landed = 0;
  };

  Status prepare(RcStream& stream);
  RcStream* stream_of(uint32_t queue_pair);
  void on_receive(RcStream& stream, const WorkCompletion& completion, FastEvent& event);
  void on_part_landed(uint32_t number, FastEvent& event);

  RcDevice& device_;
  const uint64_t number_;  // among the links of the device
  Traffic traffic_;
  std::vector<std::unique_ptr<RcStream>> streams_;
  uint32_t reserved_receives_ = 0;
  uint16_t peer_credits_ = 0;  // settled with the number of streams, at the first connect(); 0: not
  std::unordered_map<uint32_t, std::unique_ptr<RcWrite>> writes_;
  std::unordered_map<uint32_t, Exposure> exposures_;
};

}  // namespace rocecoll
