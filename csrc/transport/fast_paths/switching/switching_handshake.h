// SPDX-License-Identifier: Apache-2.0
// How the two ends of a link agree which path carries it. Without I/O: the peer's frames and what
// the link has done go in; frames for the control path, and the link's next step, come out.
//
// A *generation* is one attempt to have the fast path carry. Each end says what it has received and
// the addresses of its fresh ends (OFFER), connects to the peer's (READY), sends a probe once both
// are connected, and says whether that has come through (VERDICT). The fast path carries if both
// ends have proved it, else the control path does. When a fast path that carries fails, both ends
// drain theirs and begin the next generation, in which what the peer has not received goes out
// again. Meanwhile nothing is carried. From the control path, either end may begin a generation at
// any time; that path carries until both have proved the fast path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/fast_paths/switching/switching_options.h"
#include "transport/fast_paths/switching/switching_wire.h"

namespace rocecoll {

class SwitchingHandshake {
 public:
  enum class Phase : uint8_t {
    kDraining,    // until nothing of the last generation is outstanding
    kOffering,    // until the peer's offer has come
    kAbstaining,  // likewise; this end has offered nothing
    kWithdrawn,   // likewise; this end has taken its offer back, and said so
    kConnecting,  // until our ends are connected
    kConnected,   // until the peer's are, too
    kProbing,     // until our probe has come through
    kProved,      // until the peer's verdict has come
    kFast,
    kControl,  // until a further generation, if there is any
    kDown,
  };
  // What the link is to do next. It reports having done so by the call in brackets.
  enum class Step : uint8_t {
    kNone,
    kMeet,     // both ends have made offers: acknowledge what the peer has received [meet()]
    kConnect,  // to peer_offer().ends [on_connected(), withdraw()]
    kProbe,    // [on_proved(), withdraw()]
    kCarry,    // the fast path carries from now on [carry()]
    kFall,     // the control path does, because of reason() [fall()]
    kEnd,      // the generation that carries, because of reason() [end()]
    kBegin,    // another generation [begin()]
  };

  // Generation 0 has begun.
  explicit SwitchingHandshake(const SwitchingWords& words) : words_(words) {}

  Phase phase() const { return phase_; }
  uint32_t generation() const { return generation_; }
  bool carries() const { return phase_ == Phase::kFast; }
  // The control path carries, also during an attempt.
  bool control_carries() const {
    return phase_ == Phase::kControl || (attempting() && begun_from_ == Phase::kControl);
  }
  bool attempting() const { return phase_ >= Phase::kOffering && phase_ <= Phase::kProved; }
  // The paths of both ends are being tried.
  bool proving() const { return phase_ >= Phase::kConnecting && phase_ <= Phase::kProved; }
  // This end may still withdraw().
  bool undecided() const {
    return attempting() && phase_ != Phase::kWithdrawn && phase_ != Phase::kProved;
  }
  // The peer's offer is to say which messages of the last generation go out again.
  bool resuming() const { return awaits_offer() && begun_from_ == Phase::kDraining; }
  bool has_peer_offer() const { return peer_offer_.has_value(); }
  const SwitchingOffer& peer_offer() const { return *peer_offer_; }
  // As far as it has said in this generation.
  bool peer_leaves() const;
  // The peer sends nothing more over the control path that comes before what the fast path brings.
  bool peer_moved() const { return peer_moved_in_ >= returning_in_; }
  // Why the last step is to be done.
  const std::string& reason() const { return reason_; }
  // Why our end of the fast path failed, or is not there.
  const std::string& broken() const { return broken_; }
  // For the control path, in this order.
  std::vector<WireBytes> take_frames() { return std::exchange(frames_, {}); }

  // -- what the link does
  // Another generation, from the control path or once drained. offer() follows.
  void begin();
  // What this end offers in this generation, or why it offers nothing.
  Step offer(SwitchingOffer ours);
  Step meet();
  // Also again, when READY has come.
  Step on_connected();
  Step on_proved();
  // Our end of the fast path does not carry. Has no effect once it has proved itself: if the peer's
  // end has, too, this generation carries and then ends.
  Step withdraw(const std::string& reason);
  void carry() { phase_ = Phase::kFast; }
  void fall() { phase_ = Phase::kControl; }
  // The generation is over; nothing carries until the next one.
  void end(const std::string& reason);
  void stop() { phase_ = Phase::kDown; }

  // -- what the peer says
  Step on_offer(SwitchingOffer offer);
  void on_ready(uint32_t generation);
  Step on_verdict(SwitchingVerdict verdict);
  // False if that generation has not begun. MOVED may be late, if the path broke again meanwhile;
  // it then says nothing about the generations that follow.
  bool on_moved(uint32_t generation);

 private:
  bool awaits_offer() const { return phase_ >= Phase::kOffering && phase_ <= Phase::kWithdrawn; }
  void say_verdict(bool proved, const std::string& reason);
  Step fall_because(const std::string& reason);
  Step conclude();
  std::string peer_failed() const;

  const SwitchingWords& words_;
  Phase phase_ = Phase::kOffering;
  Phase begun_from_ = Phase::kOffering;  // this generation: kDraining, kControl, or it is the first
  uint32_t generation_ = 0;
  std::optional<SwitchingOffer> peer_offer_;
  bool peer_ready_ = false;
  std::optional<SwitchingVerdict> peer_verdict_;
  uint32_t returning_in_ = 0;   // the last generation that began on the control path
  uint32_t peer_moved_in_ = 0;  // the last generation of which the peer has said MOVED
  std::string broken_;
  std::string reason_;
  std::vector<WireBytes> frames_;
};

}  // namespace rocecoll
