// SPDX-License-Identifier: Apache-2.0
// A link with two paths: the control path, a link of the process's UDP transport, and queue pairs.
//
// The control path opens the link, tells whether the peer lives, and carries everything when RoCE
// does not. A *generation* is one attempt to have RoCE carry: both ends tell what they have
// received and the addresses of fresh queue pairs (OFFER), connect them (READY), send a probe over
// them, and say whether it was acknowledged (VERDICT). RoCE carries if both offered queue pairs and
// both proved them; else the control path does, for the rest of the link's life. When a queue pair
// fails both ends drain theirs and begin the next generation, in which what the peer has not
// received goes out again.
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

#include "transport/rc/rc_context.h"
#include "transport/rc/rc_stream.h"
#include "transport/rc/rc_wire.h"
#include "transport/rc/rc_write.h"
#include "transport/transport.h"

namespace rocecoll {

class RcLink final : public Link {
 public:
  static constexpr size_t kMaxWaitingFrames = 64;
  static constexpr size_t kMaxPendingWrites = 256;
  static constexpr size_t kMaxAnnounced = 1024;  // per process

  // `control` is this link's on the control path; `peer` is for messages.
  RcLink(RcContext& context, Link& control, const Address& peer);
  ~RcLink() override;

  LinkId id() const override { return id_; }
  bool send_frame(std::span<const std::byte> frame) override;
  bool write(const RemoteSlice& to, LocalSlice from, uint32_t token) override;
  RemoteSlice expose(LocalSlice into, uint32_t token) override;
  void unexpose(const RemoteSlice& slice) override;
  void close(const Status& why) override;
  std::optional<LinkContact> contact() const override {
    return control_ == nullptr ? std::nullopt : control_->contact();
  }
  const Status& status() const override { return status_; }

  // -- for the transport
  void on_control(const Event& event);
  void on_completion(const WorkCompletion& completion);
  // The receive request of a polled frame is there again.
  void on_reposted(uint32_t queue_pair);
  void on_timer();
  // This process did not run for so long, with a deadline set: nobody has kept it waiting.
  void on_pause(Duration length) { deadline_ += length; }
  // The device went down: RoCE no longer carries this link.
  void on_device_down();
  // Down has been polled.
  void set_status() { status_ = down_; }
  // Sends what can be sent. False: something waits for room in the control path, try again after
  // its next poll().
  bool pump();
  // True when nothing can touch lent memory any more.
  bool drained() const;
  void destroy_queue_pairs();
  Instant deadline() const { return deadline_; }
  bool closed() const { return closed_; }
  bool closing() const { return closed_ && control_ != nullptr; }
  bool finished() const { return closed_ && control_ == nullptr; }
  bool dirty = false;  // in RcContext::dirty

 private:
  enum class Phase : uint8_t {
    kDraining,  // until nothing of the last generation's queue pairs is outstanding
    kOffering,  // until the peer's offer has come
    kProving,   // until both verdicts are known
    kRoce,
    kControl,
    kDown,
  };
  struct Exposure {
    LocalSlice into;
    uint32_t token = 0;
    RegisteredMemory::Lease lease;
    size_t parts_landed = 0;
    std::optional<RemoteSlice> on_control;
  };

  // -- rc_link.cc: the owner's side
  void set_phase(Phase phase);
  void set_deadline(Instant deadline);
  void mark_dirty();
  void emit(Event::Kind kind, uint32_t token);
  void expose_on_control(uint32_t number, Exposure& exposure);
  void abandon_lent_memory();
  void close_in_good_order();
  void finish_closing();
  void close_control(const Status& why);  // the link is finished()
  void go_down(Status why);

  // -- rc_link_control.cc: what goes over the control path
  void say(WireBytes message);
  bool pump_control_queue();
  bool pump_control_frames();
  bool pump_control_writes();
  bool send_over_control(std::span<const std::byte> frame);
  void on_control_frame(std::span<const std::byte> frame);
  void on_control_down(const Status& why);
  void on_peer_frame(std::span<const std::byte> frame);

  // -- rc_link_streams.cc: what goes over queue pairs
  void pump_streams();
  void distribute_writes();
  void take_written(RcStream& stream);
  void on_receive(RcStream& stream, const WorkCompletion& completion);
  void on_part_landed(uint32_t number);
  RcStream* stream_of(uint32_t queue_pair);

  // -- rc_handshake.cc: generations
  void begin_generation(uint32_t generation);
  Status prepare_streams();
  void give_up_streams();
  void on_offer(RcOffer offer);
  void meet();
  bool apply_received(const RcOffer& offer);
  Status connect_streams(const RcOffer& offer);
  void on_ready(uint32_t generation);
  void on_proved();
  void on_verdict(const RcVerdict& verdict);
  void say_verdict(bool proved, const std::string& reason);
  void conclude();
  void carry_over_roce();
  void carry_over_control(const std::string& reason);
  void on_stream_failure(const std::string& reason);
  void break_streams(const std::string& reason);
  void continue_draining();
  void announce(const std::string& text, bool warning);
  std::string pair_text() const;

  RcContext& context_;
  Link* control_;  // null once closed
  const LinkId id_;
  const std::string peer_text_;
  Status status_;  // what the owner has been told
  Status down_;
  bool closed_ = false;

  Phase phase_ = Phase::kOffering;
  uint32_t generation_ = 0;
  uint32_t recoveries_ = 0;
  std::string broken_;  // why the streams failed or are not there
  std::optional<RcOffer> peer_offer_;
  uint16_t peer_credits_ = 0;
  bool offered_roce_ = false;  // by us, in this generation
  bool ready_ = false;         // the peer is connected
  std::optional<bool> our_verdict_;
  std::optional<RcVerdict> peer_verdict_;
  std::optional<uint64_t> goodbye_;  // messages that the leaving peer has sent
  std::optional<Status> held_down_;  // until they have come
  bool goodbye_said_ = false;
  Instant last_break_{};
  Instant deadline_ = kNever;

  std::vector<std::unique_ptr<RcStream>> streams_;
  uint32_t reserved_receives_ = 0;
  std::deque<WireBytes> control_queue_;
  std::deque<WireBytes> waiting_frames_;  // of the owner, for whichever path
  WireBytes assembling_;                  // a frame that comes in pieces
  size_t sent_of_frame_ = 0;              // pieces of waiting_frames_.front() have gone

  std::unordered_map<uint32_t, std::unique_ptr<RcWrite>> writes_;
  uint32_t next_write_;
  std::deque<uint32_t> new_writes_;      // for queue pairs, not cut yet
  std::deque<uint32_t> control_writes_;  // not accepted by the control path yet
  std::unordered_map<uint32_t, Exposure> exposures_;
  uint32_t next_exposure_;
  std::unordered_map<uint32_t, RemoteSlice> exposed_by_peer_;  // on the control path
};

}  // namespace rocecoll
