// SPDX-License-Identifier: Apache-2.0
// Which of two paths the packets to one peer take: UDP, which is always there, or UD, once it is
// proven to work. Sans-IO, as a Connection is: events in, questions to send and news out.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/backoff.h"
#include "base/time.h"
#include "transport/datagram/ud/path_wire.h"

namespace rocecoll {

// What happened to the pair that a person may want to know.
enum class PathNews : uint8_t {
  kProven,        // goes over UD from now on
  kNoPort,        // the peer's process has no UD port that we could use
  kNoAnswer,      // the peer does not answer HELLO
  kNotThrough,    // probes do not get through in both directions
  kPeerPortDown,  // the peer says that its port is down
  kFailed,        // UD has fallen silent while UDP works
};

class PathChoice {
 public:
  static constexpr Duration kFirstInterval = std::chrono::milliseconds(1);  // then doubling
  static constexpr Duration kLastHelloInterval = std::chrono::seconds(1);
  static constexpr Duration kLastProbeInterval = std::chrono::milliseconds(100);
  static constexpr uint32_t kMaxHellos = 12;  // unanswered: about 3 s
  static constexpr uint32_t kMaxProbes = 14;  // about 0.8 s
  // Longer than any pause that a live peer's scheduler makes, shorter than anybody's patience.
  static constexpr Duration kSilence = std::chrono::milliseconds(200);
  // Counting probes, not time, makes a stop of our own process prove nothing.
  static constexpr uint32_t kDoubtProbes = 10;
  // So does this with the peer's: after a stop its answers come over both paths.
  static constexpr uint32_t kProbesPastAnswer = 5;
  static constexpr Duration kFirstRest = std::chrono::seconds(3);  // then doubling
  static constexpr Duration kLongestRest = std::chrono::seconds(60);
  static constexpr Duration kShortestRest = std::chrono::seconds(1);  // when the peer asks

  // Not `failover`: a proven path is kept whatever happens to it.
  explicit PathChoice(bool failover) : failover_(failover) {}

  bool uses_ud() const { return state_ == State::kUsing || state_ == State::kDoubting; }
  // Nothing goes on with this peer until start().
  bool idle() const { return state_ == State::kIdle; }
  // Answers to our questions carry these, or they are not ours.
  bool awaits_hello(uint64_t nonce) const {
    return (state_ == State::kAsking || state_ == State::kDoubting) && nonce == nonce_;
  }

  // -- events in
  void start(Instant now);
  // Something is sent to the peer, over whichever path.
  void on_traffic() { wanted_ = true; }
  // True if UD, unanswered so far, carries something: report on_unheard() when the time is known.
  bool on_sent_over_ud() {
    const bool first = !unheard_;
    unheard_ = true;
    return first && state_ == State::kUsing;
  }
  void on_unheard(Instant now);
  void on_heard_over_ud() { unheard_ = false; }
  // HELLO answers that this awaits. `renewed`: the UD address is not the one known so far.
  void on_answer(Instant now, const PathHello& answer, bool renewed);
  // The peer has no port, or one that we cannot use.
  void on_no_port(Instant now);
  void on_question(Instant now, bool knows_us);
  void on_probe_question(Instant now);
  // False if no probe with this nonce is open.
  bool on_probe_answer(Instant now, uint64_t nonce);
  void on_own_port_down();
  void on_own_port_up(Instant now);
  // Probes would tell nothing: the system does not know the way to the peer's port yet.
  bool proving() const { return state_ == State::kProving; }
  void on_way_unknown(Instant now) { next_at_ = now + probe_interval_.next(); }
  // At deadline(). `drained`: all that UD has received so far has been reported.
  void on_timer(Instant now, bool drained);

  // -- effects out
  Instant deadline() const;
  // An attempt begins: what is known of the way to the peer's port may be out of date.
  bool poll_renewal() { return std::exchange(renewal_due_, false); }
  bool poll_hello(uint64_t& nonce);
  // `full`: as large as the path is to carry.
  bool poll_probe(uint64_t& nonce, bool& full);
  std::optional<PathNews> poll_news();

 private:
  enum class State : uint8_t {
    kIdle,      // not wanted
    kAsking,    // for the peer's UD address, and until it knows ours
    kProving,   // probing; data goes over UDP
    kUsing,     // data goes over UD
    kDoubting,  // so it does, but something seems wrong
    kResting,   // tried in vain; again at next_at_
    kPortDown,  // ours
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
  bool wanted_ = false;  // traffic since this was last looked at
  bool peer_knows_us_ = false;
  bool answered_ = false;  // HELLO, since the state began
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
  Instant doubt_questions_at_{};  // from then on a question of the peer makes a doubt
  bool unheard_ = false;          // sent over UD, and nothing heard since
  Instant unheard_since_ = kNever;
  Backoff rest_{kFirstRest, kLongestRest};
  bool renewal_due_ = false;
  bool hello_due_ = false;
  bool probe_due_ = false;
  std::optional<PathNews> news_;
  std::optional<PathNews> said_;  // since UD last worked
};

}  // namespace rocecoll
