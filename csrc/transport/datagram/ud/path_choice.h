// SPDX-License-Identifier: Apache-2.0
// Which of two paths the packets to one peer take: UDP, which always exists, or UD, once it is
// proven to work. Sans-IO, like a Connection: events go in, questions to send and news come out.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/backoff.h"
#include "base/time.h"
#include "transport/datagram/ud/path_wire.h"

namespace rocecoll {

// What people may want to know about a pair.
enum class PathNews : uint8_t {
  kProven,        // uses UD from now on
  kNoPort,        // the peer's process has no UD port that this process can use
  kNoAnswer,      // the peer does not answer HELLO
  kNotThrough,    // probes do not get through in both directions
  kPeerPortDown,  // the peer reports that its port is down
  kFailed,        // UD has fallen silent while UDP works
};

class PathChoice {
 public:
  static constexpr Duration kFirstInterval = std::chrono::milliseconds(1);  // backs off from here
  static constexpr Duration kLastHelloInterval = std::chrono::seconds(1);
  static constexpr Duration kLastProbeInterval = std::chrono::milliseconds(100);
  static constexpr uint32_t kMaxHellos = 12;  // unanswered: about 3 s
  static constexpr uint32_t kMaxProbes = 14;  // about 0.8 s
  // Longer than the scheduler of a live peer pauses it, shorter than anybody's patience.
  static constexpr Duration kSilence = std::chrono::milliseconds(200);
  // Probes are counted, not time, so that a stop of this process proves nothing.
  static constexpr uint32_t kDoubtProbes = 10;
  // The same for a stop of the peer, after which its answers come over both paths.
  static constexpr uint32_t kProbesPastAnswer = 5;
  static constexpr Duration kFirstRest = std::chrono::seconds(3);  // backs off from here
  static constexpr Duration kLongestRest = std::chrono::seconds(60);
  static constexpr Duration kShortestRest = std::chrono::seconds(1);  // when the peer asks

  // Without `failover` a proven path is kept whatever happens to it.
  explicit PathChoice(bool failover) : failover_(failover) {}

  bool uses_ud() const { return state_ == State::kUsing || state_ == State::kDoubting; }
  // Nothing happens with this peer until start().
  bool idle() const { return state_ == State::kIdle; }
  // Whether an answer with this nonce belongs to a question of ours.
  bool awaits_hello(uint64_t nonce) const {
    return (state_ == State::kAsking || state_ == State::kDoubting) && nonce == nonce_;
  }

  // -- events in
  void start(Instant now);
  // Something is sent to the peer, over either path.
  void on_traffic() { wanted_ = true; }
  // True if this is the first thing sent over UD since the peer was heard there: call on_unheard()
  // when the time is known.
  bool on_sent_over_ud() {
    const bool first = !unheard_;
    unheard_ = true;
    return first && state_ == State::kUsing;
  }
  void on_unheard(Instant now);
  void on_heard_over_ud() { unheard_ = false; }
  // For HELLO answers with awaits_hello(). `renewed`: the UD address differs from the known one.
  void on_answer(Instant now, const PathHello& answer, bool renewed);
  // The peer has no port, or none that this process can use.
  void on_no_port(Instant now);
  void on_question(Instant now, bool knows_us);
  void on_probe_question(Instant now);
  // False if no probe with this nonce is open.
  bool on_probe_answer(Instant now, uint64_t nonce);
  void on_own_port_down();
  void on_own_port_up(Instant now);
  // While proving, on_way_unknown() postpones probes, which would tell nothing as long as the
  // system does not know the hardware address of the peer's port.
  bool proving() const { return state_ == State::kProving; }
  void on_way_unknown(Instant now) { next_at_ = now + probe_interval_.next(); }
  // Call at deadline(). `drained`: everything that UD has received so far has been reported.
  void on_timer(Instant now, bool drained);

  // -- effects out
  Instant deadline() const;
  // True when an attempt begins: the known hardware address of the peer's port may be out of date.
  bool poll_renewal() { return std::exchange(renewal_due_, false); }
  bool poll_hello(uint64_t& nonce);
  // `full`: the probe has the largest size that the path is to carry.
  bool poll_probe(uint64_t& nonce, bool& full);
  std::optional<PathNews> poll_news();

 private:
  enum class State : uint8_t {
    kIdle,      // not needed
    kAsking,    // asks for the peer's UD address, until the peer knows ours, too
    kProving,   // probes; data goes over UDP
    kUsing,     // data goes over UD
    kDoubting,  // data goes over UD, but something seems wrong
    kResting,   // the attempt failed; the next one is at next_at_
    kPortDown,  // our own port is down
  };

  void ask(Instant now);
  void prove(Instant now);
  void doubt(Instant now);
  void rest(Instant now, PathNews why);
  void rest_less(Instant now);
  void on_doubt_timer(Instant now, bool drained);
  bool ud_is_dead() const {
    return probes_ >= kDoubtProbes && probes_past_answer_ >= kProbesPastAnswer;
  }
  void say(PathNews news);

  const bool failover_;
  State state_ = State::kIdle;
  bool wanted_ = false;  // there was traffic since this was last checked
  bool peer_knows_us_ = false;
  bool answered_ = false;  // a HELLO, since the state began
  uint32_t hellos_ = 0;    // unanswered
  uint32_t probes_ = 0;    // unanswered
  uint32_t probes_past_answer_ = 0;
  uint64_t nonce_ = 0;  // of all questions since the state began
  Backoff hello_interval_{kFirstInterval, kLastHelloInterval};
  Backoff probe_interval_{kFirstInterval, kLastProbeInterval};
  Instant next_at_ = kNever;  // of the next question
  Instant asked_at_{};
  Instant rested_at_{};
  Instant proven_at_{};
  Instant doubt_questions_at_{};  // from then on a question of the peer causes a doubt
  bool unheard_ = false;          // sent over UD, and nothing heard since
  Instant unheard_since_ = kNever;
  Backoff rest_{kFirstRest, kLongestRest};
  bool renewal_due_ = false;
  bool hello_due_ = false;
  bool probe_due_ = false;
  std::optional<PathNews> news_;
  std::optional<PathNews> said_;  // the last news since UD last worked
};

}  // namespace rocecoll
