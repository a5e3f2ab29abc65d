// SPDX-License-Identifier: Apache-2.0
// A link with two paths: the control path, a link of the transport that reaches everybody, and a
// faster one.
//
// The control path opens the link, tells whether the peer lives, and carries everything when the
// faster one does not. A *generation* is one attempt to have that one carry: both ends tell what
// they have received and the addresses of fresh ends (OFFER), connect them (READY), send a probe
// over them, and say whether it has come through (VERDICT). The faster path carries if both offered
// ends and both proved them; else the control path does. When the faster path fails both sides
// drain theirs and begin the next generation, in which what the peer has not received goes out
// again.
//
// A link that the control path carries tries the faster path again (SwitchingRetry): either end
// begins another generation, while the control path goes on. Once both have proved it each end ends
// the frame that it has begun, says over the control path that it has MOVED, and sends further
// frames over the faster one; what comes from there waits until the peer's MOVED is here. Writes
// and exposed slices stay with the path that they have begun on.
//
// After close() in good order the object goes on in the background until finished().
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/tally.h"
#include "transport/fast_path.h"
#include "transport/fast_paths/switching/switching_context.h"
#include "transport/fast_paths/switching/switching_retry.h"
#include "transport/fast_paths/switching/switching_wire.h"
#include "transport/transport.h"

namespace rocecoll {

class SwitchingLink final : public Link {
 public:
  static constexpr size_t kMaxWaitingFrames = 64;
  static constexpr size_t kMaxPendingWrites = 256;
  static constexpr size_t kMaxAnnounced = 1024;  // per process

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
    return control_ == nullptr ? std::nullopt : control_->contact();
  }
  std::vector<PathStats> path_stats() const override;
  const Status& status() const override { return status_; }

  // -- for the transport
  void on_control(const Event& event);
  void on_path(const FastEvent& event);
  void on_timer();
  // Shows the peer that we live if its end of the control path has not been heard for a while: its
  // network may carry nothing both ways.
  void heartbeat_if_silent();
  // This process did not run for so long, with a deadline set: nobody has kept it waiting.
  void on_pause(Duration length) { deadline_ += length; }
  // The device went down: the faster path no longer carries this link.
  void on_device_down();
  void on_device_up();
  // Down has been polled.
  void set_status() { status_ = down_; }
  // Sends what can be sent. False: something waits for room in the control path, try again after
  // its next poll().
  bool pump();
  // True when the faster path cannot touch lent memory any more.
  bool drained() const { return path_ == nullptr || path_->drained(); }
  void destroy_path();
  Instant deadline() const { return deadline_; }
  bool closed() const { return closed_; }
  bool closing() const { return closed_ && control_ != nullptr; }
  bool finished() const { return closed_ && control_ == nullptr; }
  void mark_dirty();
  bool dirty = false;  // in SwitchingContext::dirty

 private:
  enum class Phase : uint8_t {
    kDraining,  // until nothing of the last generation is outstanding
    kOffering,  // until the peer's offer has come
    kProving,   // until both verdicts are known
    kFast,
    kControl,  // until a further attempt, if there is any
    kDown,
  };
  struct Write {
    RemoteSlice to;
    LocalSlice from;
    uint32_t token = 0;
    bool on_control = false;  // the control path has it
  };
  struct Exposure {
    LocalSlice into;
    uint32_t token = 0;
    std::optional<RemoteSlice> on_control;
  };

  // -- switching_link.cc: the owner's side, and what the faster path carries
  void set_phase(Phase phase);
  void set_deadline(Instant deadline);
  void send_heartbeat();
  void emit(Event::Kind kind, uint32_t token);
  void expose_on_control(uint32_t number, Exposure& exposure);
  void abandon_lent_memory();
  bool lent_to_control() const;
  void close_in_good_order();
  void finish_closing();
  void close_control(const Status& why);  // the link is finished()
  void go_down(Status why);
  bool move();
  void pump_path();
  void on_path_frame(const FastEvent& event);
  void drop_early_frames();
  void take_written();

  // -- switching_link_control.cc: what goes over the control path
  void say(WireBytes message);
  bool pump_control_queue();
  bool pump_control_frames();
  bool pump_control_writes();
  bool send_over_control(const FrameBytes& frame);
  void on_control_frame(std::span<const std::byte> frame);
  void on_control_down(const Status& why);
  void on_peer_frame(std::span<const std::byte> frame);
  void on_peer_moved(uint32_t generation);
  // What the faster path brings has nothing to wait for.
  bool peer_moved() const { return peer_moved_in_ >= returning_in_; }

  // -- switching_handshake.cc: generations
  void begin_generation(uint32_t generation);
  SwitchingOutlook prepare_path();
  std::string doubt() const;
  bool passes_over();
  void try_again();
  void on_offer(SwitchingOffer offer);
  void meet();
  void on_ready(uint32_t generation);
  void continue_proving();
  void on_proof_timeout();
  void on_verdict(const SwitchingVerdict& verdict);
  void say_verdict(bool proved, const std::string& reason);
  void conclude();
  void carry_over_path();
  void plan_completion();
  void carry_over_control(const std::string& reason);
  void leave_path();
  bool returns() const;
  void announce_return();
  bool peer_leaves() const;
  void announce_fall(const std::string& reason);
  void note_unreached(const std::string& reason);
  void on_path_failure(const std::string& reason);
  void end_attempt(const std::string& reason);
  void break_path(const std::string& reason);
  // The faster path is to begin another one.
  void end_generation(const std::string& reason);
  void continue_draining();
  void announce(const std::string& text, bool warning);
  std::string pair_text() const;
  std::string peer_failed() const;

  SwitchingContext& context_;
  Link* control_;  // null once closed
  const LinkId id_;
  const std::string peer_text_;
  Status status_;  // what the owner has been told
  Status down_;
  uint64_t unsent_when_down_ = 0;
  bool closed_ = false;

  Phase phase_ = Phase::kOffering;
  uint32_t generation_ = 0;
  uint32_t recoveries_ = 0;
  std::string broken_;       // why the faster path failed or is not there
  bool on_control_ = false;  // the control path carries, also during an attempt
  bool resuming_ = false;    // the peer's offer is to tell what of the last generation to repeat
  bool final_ = false;       // this end will never offer anything
  SwitchingOutlook peer_outlook_ = SwitchingOutlook::kAskAgain;
  SwitchingRetry retry_;
  Tally falls_;                 // from the faster path to the control path
  Instant fell_at_{};           // the last time
  bool fell_ = false;           // and people were told of it, but of no return yet
  bool told_why_ = false;       // why the control path carries, since it does
  bool move_owed_ = false;      // MOVED is to be said before anything goes over the faster path
  uint32_t returning_in_ = 0;   // the last generation that began on the control path
  uint32_t peer_moved_in_ = 0;  // the last generation of which the peer has said MOVED
  std::optional<SwitchingOffer> peer_offer_;
  bool offered_ = false;     // the faster path, by us, in this generation
  bool ready_ = false;       // the peer is connected
  bool said_ready_ = false;  // and we are
  bool probing_ = false;
  bool more_ends_ = false;  // the path could have more than this generation began with
  std::optional<bool> our_verdict_;
  std::optional<SwitchingVerdict> peer_verdict_;
  std::optional<uint64_t> goodbye_;  // messages that the leaving peer has sent
  std::optional<Status> held_down_;  // until they have come
  bool goodbye_said_ = false;
  Instant last_heartbeat_{};
  Instant last_break_{};
  Instant deadline_ = kNever;

  const std::unique_ptr<FastPath> path_;  // null without a device
  std::deque<SwitchingPendingEvent>
      early_frames_;  // until the peer's MOVED; its credits bound them
  std::deque<WireBytes> control_queue_;
  std::deque<WireBytes> waiting_frames_;  // of the owner, for whichever path
  WireBytes assembling_;                  // a frame that comes in pieces
  size_t sent_of_frame_ = 0;              // pieces of waiting_frames_.front() have gone

  std::unordered_map<uint32_t, Write> writes_;
  uint32_t next_write_;
  std::deque<uint32_t> new_writes_;      // for the faster path, not pushed yet
  std::deque<uint32_t> control_writes_;  // not accepted by the control path yet
  std::unordered_map<uint32_t, Exposure> exposures_;
  uint32_t next_exposure_;
  std::unordered_map<uint32_t, RemoteSlice> exposed_by_peer_;  // on the control path
};

}  // namespace rocecoll
