// SPDX-License-Identifier: Apache-2.0
// Shared memory as the fast path of one link. Each end has a ring that the other one writes into
// (shm_sender.h, shm_receiver.h).
//
// Frames go through the ring. A large write is fetched by its receiver straight out of the sender's
// memory, in one copy, if the system permits that (memory_pull.h), which the probe finds out.
// Otherwise it goes through the ring in parts. The receiver may fetch only while the sender lends
// the memory: a sender that takes it back sets `revoked` first, and the receiver throws away what
// it has fetched after that.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/fast_path.h"
#include "transport/fast_paths/shm/peer_end.h"
#include "transport/fast_paths/shm/shared_segment.h"
#include "transport/fast_paths/shm/shm_receiver.h"
#include "transport/fast_paths/shm/shm_sender.h"

namespace rocecoll {

class ShmDevice;

class ShmPath final : public FastPath {
 public:
  explicit ShmPath(ShmDevice& device);
  ~ShmPath() override { destroy(); }

  Status prepare() override;
  Ends ends() const override;
  Status connect(const Ends& peer) override;
  bool connected() const override { return !failed_; }
  Status probe() override;
  bool proved() const override { return proved_; }
  void start() override { started_ = true; }
  void fail() override;
  bool failed() const override { return failed_; }
  bool drained() const override { return failed_ || !receiver_.prepared(); }
  void destroy() override;
  std::vector<WireBytes> give_up() override;
  PathStats stats() const override { return {"shm", false, traffic_, {}, {}}; }
  std::string carrier() const override;

  Counts received() const override { return {receiver_.received()}; }
  bool acknowledge(const Counts& received) override { return sender_.acknowledge(received[0]); }
  uint64_t pushed() const override { return sender_.pushed(); }
  uint64_t unsent() const override { return sender_.unsent_frames(); }
  bool empty() const override { return sender_.empty(); }
  void request_acknowledgement() override { sender_.request_acknowledgement(); }
  bool push_frame(const FrameBytes& frame) override;
  void push_write(uint32_t number, const RemoteSlice& to, LocalSlice from) override {
    sender_.push_write(number, to, from);
  }
  Status pump() override;
  std::vector<uint32_t> take_written() override { return sender_.take_written(); }
  Result<RemoteSlice> expose(uint32_t number, LocalSlice into) override {
    return receiver_.expose(number, into);
  }
  bool take_back(uint32_t number) override { return receiver_.take_back(number); }
  void forget_lent() override;

  // -- for the device
  uint64_t nonce() const { return nonce_; }
  // The peer's ring and process, in answer to this generation's ends.
  void on_greeting(std::shared_ptr<PeerProcess> peer, SharedSegment ring);
  // In place of them came something that cannot be used, for this reason.
  void refuse(std::string why);
  // Tries again to greet the peer. False: there is still no room.
  bool greet_again();
  // The peer has rung. True if that may be news of what was sent; then `event` is to be reported.
  bool on_bell(FastEvent& event);
  // The next event. False: there is none now.
  bool look(FastEvent& event);
  // No frame of the ring is lent any more.
  void on_all_released();
  const PeerProcess* peer() const { return peer_.process(); }

 private:
  Result<bool> greet();
  void find_fault(std::string text);
  void settle();
  void send_probe();
  void set_expecting(bool expecting);
  bool broken(FastEvent& event, const char* text);

  ShmDevice& device_;
  Traffic traffic_;
  PeerEnd peer_;
  ShmSender sender_;
  ShmReceiver receiver_;

  // Of this generation.
  uint64_t nonce_ = 0;
  uint32_t slot_ = 0;
  bool expecting_ = false;  // the peer's greeting
  bool probing_ = false;
  bool proved_ = false;
  bool started_ = false;
  bool failed_ = true;
  std::string fault_;  // empty: none
};

}  // namespace rocecoll
