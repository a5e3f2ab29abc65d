// SPDX-License-Identifier: Apache-2.0
// A link with two paths: the control path, a link of the transport that reaches everybody, and a
// fast path.
//
// The control path opens the link, tells whether the peer lives, and carries everything when the
// fast path does not. SwitchingHandshake agrees with the peer which of them carries; the link does
// what its steps ask for. What the fast path has not brought to the peer when it fails goes out
// again over whichever path carries next.
//
// A link that the control path carries tries the fast path again (SwitchingProspects), while the
// control path goes on. Once both ends have proved the fast path, each of them completes the frame
// that it has begun, says over the control path that it has MOVED, and sends further frames over
// the fast path. What arrives there waits until the peer's MOVED is here. Writes and exposed slices
// stay with the path on which they began.
//
// After close() in good order the object goes on in the background until finished().
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/fast_path.h"
#include "transport/fast_paths/switching/control_carrier.h"
#include "transport/fast_paths/switching/lent_memory.h"
#include "transport/fast_paths/switching/pair_log.h"
#include "transport/fast_paths/switching/switching_context.h"
#include "transport/fast_paths/switching/switching_handshake.h"
#include "transport/fast_paths/switching/switching_prospects.h"
#include "transport/transport.h"

namespace rocecoll {

class SwitchingLink final : public Link, public PathOwner {
 public:
  static constexpr size_t kMaxWaitingFrames = 64;
  static constexpr size_t kMaxPendingWrites = 256;

  // `control` is this link's on the control path; `peer` is for messages.
  SwitchingLink(SwitchingContext& context, Link& control, const Address& peer);
  ~SwitchingLink() override;

  LinkId id() const override { return id_; }
  bool send_frame(const FrameBytes& frame) override;
  uint64_t unsent_frames() const override;
  bool write(const RemoteSlice& to, LocalSlice from, uint32_t token) override;
  RemoteSlice expose(LocalSlice into, uint32_t token) override;
  void unexpose(const RemoteSlice& slice) override;
  void close(const Status& why) override;
  std::optional<LinkContact> contact() const override {
    return finished() ? std::nullopt : control_.link()->contact();
  }
  std::vector<PathStats> path_stats() const override;
  const Status& status() const override { return status_; }

  // -- for the transport
  void on_control(const Event& event);
  void on_path(const FastEvent& event) override;
  void on_timer();
  // Shows the peer that we live, if nothing has come from it over the control path for a while: the
  // network there may carry nothing in either direction.
  void heartbeat_if_silent();
  // The process did not run for this long, with a deadline set: nothing was late meanwhile.
  void on_pause(Duration length) { deadline_ += length; }
  // The device went down: the fast path no longer carries this link.
  void on_device_down();
  void on_device_up();
  // Down has been polled.
  void set_status() { status_ = down_; }
  // Sends what can be sent. False: something waits for room in the control path, try again after
  // its next poll().
  bool pump();
  // True when the fast path cannot touch lent memory any more.
  bool drained() const { return path_ == nullptr || path_->drained(); }
  void destroy_path();
  Instant deadline() const { return deadline_; }
  bool closed() const { return closed_; }
  bool closing() const { return closed_ && control_.link() != nullptr; }
  bool finished() const { return control_.link() == nullptr; }
  void mark_dirty() override;
  bool dirty = false;  // in SwitchingContext::dirty

 private:
  using Phase = SwitchingHandshake::Phase;
  using Step = SwitchingHandshake::Step;

  // -- switching_link.cc: the owner's side
  bool down() const { return handshake_.phase() == Phase::kDown; }
  void set_deadline(Instant deadline);
  void emit(Event::Kind kind, std::optional<uint32_t> token);
  void go_down(Status why);
  Status protocol_error(const std::string& what) const;
  void abandon_lent_memory();
  void close_in_good_order();
  void finish_closing();
  void pump_path();
  bool pump_control_writes();

  // -- switching_link_events.cc: what the two paths bring
  void on_control_frame(std::span<const std::byte> frame);
  void on_control_down(const Status& why);
  void on_peer_frame(std::span<const std::byte> frame);
  void on_path_frame(const FastEvent& event);
  void take_early_frames();
  void drop_early_frames();
  void take_written();
  void send_heartbeat();

  // -- switching_link_steps.cc: what the handshake asks for
  void say(WireBytes message);
  void follow(Step step);
  void begin_generation();
  void make_offer();
  void prepare_path(SwitchingOffer& offer);
  void meet();
  void connect();
  void continue_proving();
  void probe();
  void on_proof_timeout();
  void carry_over_path();
  void carry_over_control(const std::string& reason);
  void leave_path();
  // The path, or its device, does not work.
  void on_path_failure(const std::string& reason);
  void end_attempt(const std::string& reason);
  void break_path(const std::string& reason);
  // Ends the generation that carries. The next one begins once the path has drained.
  void end_generation(const std::string& reason);
  void continue_draining();

  SwitchingContext& context_;
  const LinkId id_;
  const std::string peer_text_;
  ControlCarrier control_;
  const std::unique_ptr<FastPath> path_;  // null without a device
  SwitchingHandshake handshake_;
  SwitchingProspects prospects_;
  PairLog log_;
  LentMemory memory_;
  std::deque<WireBytes> waiting_frames_;  // of the owner, for whichever path
  // Wait for the peer's MOVED. Its credits on the fast path bound their number.
  std::deque<SwitchingPendingEvent> early_frames_;
  Instant deadline_ = kNever;
  Instant last_heartbeat_{};
  Status status_;  // what the owner has been told
  Status down_;
  uint64_t unsent_when_down_ = 0;
  bool closed_ = false;
  bool goodbye_said_ = false;
  std::optional<uint64_t> goodbye_;  // messages that the leaving peer has sent
  std::optional<Status> held_down_;  // until they have come
};

}  // namespace rocecoll
