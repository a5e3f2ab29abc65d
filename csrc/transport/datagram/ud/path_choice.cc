// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/ud/path_choice.h"

#include <algorithm>

#include "base/check.h"
#include "base/random.h"

namespace rocecoll {

void PathChoice::start(Instant now) {
  if (!idle()) return;
  wanted_ = true;
  ask(now);
}

void PathChoice::ask(Instant now) {
  state_ = State::kAsking;
  renewal_due_ = true;
  nonce_ = EntropyId();
  answered_ = false;
  hellos_ = 0;
  hello_interval_.reset();
  next_at_ = now;
}

void PathChoice::prove(Instant now) {
  ROCECOLL_CHECK(state_ == State::kAsking && answered_);
  state_ = State::kProving;
  nonce_ = EntropyId();
  probes_ = 0;
  probe_interval_.reset();
  next_at_ = now;
}

void PathChoice::doubt(Instant now) {
  ROCECOLL_CHECK(state_ == State::kUsing);
  state_ = State::kDoubting;
  nonce_ = EntropyId();
  answered_ = false;
  probes_ = probes_past_answer_ = 0;
  next_at_ = now;
}

void PathChoice::rest(Instant now, PathNews why) {
  // A path that has worked for long is soon tried again.
  if (uses_ud() && now - proven_at_ > kLongestRest) rest_.reset();
  state_ = State::kResting;
  wanted_ = false;
  rested_at_ = now;
  const Duration delay = rest_.next();
  next_at_ = now + (why == PathNews::kNoPort ? kLongestRest : delay);
  say(why);
}

// The peer has shown that something has changed at its end.
void PathChoice::rest_less(Instant now) {
  ROCECOLL_CHECK(state_ == State::kResting);
  next_at_ = std::min(next_at_, std::max(now, rested_at_ + kShortestRest));
}

void PathChoice::say(PathNews news) {
  if (news == PathNews::kProven) {
    said_.reset();
  } else if (said_ == news) {
    return;
  } else {
    said_ = news;
  }
  news_ = news;
}

void PathChoice::on_unheard(Instant now) { unheard_since_ = unheard_ ? now : kNever; }

void PathChoice::on_answer(Instant now, const PathHello& answer, bool renewed) {
  ROCECOLL_CHECK(awaits_hello(answer.nonce));
  if (answer.port == PathHello::Port::kDown && (failover_ || state_ == State::kAsking)) {
    rest(now, PathNews::kPeerPortDown);
    return;
  }
  peer_knows_us_ = answer.knows_receiver;
  if (state_ == State::kDoubting) {
    if (renewed) {  // another process: the path that we used leads nowhere
      ask(now);
    } else {
      answered_ = true;
      next_at_ = std::min(next_at_, now + kLastProbeInterval);
    }
    return;
  }
  answered_ = true;
  hellos_ = 0;
  if (peer_knows_us_) prove(now);
}

void PathChoice::on_no_port(Instant now) {
  if (state_ == State::kAsking || state_ == State::kDoubting) rest(now, PathNews::kNoPort);
}

void PathChoice::on_question(Instant now, bool knows_us) {
  peer_knows_us_ = peer_knows_us_ || knows_us;
  if (state_ == State::kAsking && answered_ && peer_knows_us_) {
    prove(now);
  } else if (state_ == State::kAsking) {
    hello_interval_.reset();
    next_at_ = std::min(next_at_, std::max(now, asked_at_ + kFirstInterval));
  } else if (state_ == State::kUsing && now >= doubt_questions_at_) {
    doubt_questions_at_ = now + kFirstRest;  // it may hear nothing of us
    doubt(now);
  } else if (state_ == State::kResting) {
    rest_less(now);
  }
}

void PathChoice::on_probe_question(Instant now) {
  peer_knows_us_ = true;
  if (state_ == State::kAsking && answered_) prove(now);
  if (state_ == State::kResting) rest_less(now);
}

bool PathChoice::on_probe_answer(Instant now, uint64_t nonce) {
  if (nonce != nonce_) return false;
  if (state_ == State::kProving) {
    proven_at_ = now;
    say(PathNews::kProven);
  } else if (state_ != State::kDoubting) {
    return false;
  }
  state_ = State::kUsing;
  unheard_ = false;
  unheard_since_ = kNever;
  return true;
}

void PathChoice::on_own_port_down() {
  if (!failover_ || idle()) return;
  // The question makes the peer ask, too, and so learn it.
  if (uses_ud()) hello_due_ = true;
  wanted_ = true;
  state_ = State::kPortDown;
}

void PathChoice::on_own_port_up(Instant now) {
  if (state_ == State::kPortDown) ask(now);
}

void PathChoice::on_timer(Instant now, bool drained) {
  if (now < deadline()) return;
  switch (state_) {
    case State::kIdle:
    case State::kPortDown:
      return;
    case State::kAsking:
      if (hellos_ == kMaxHellos) return rest(now, PathNews::kNoAnswer);
      if (hello_interval_.capped()) {
        // The peer has no traffic for us; it will ask when it has.
        if (answered_ && !wanted_) {
          state_ = State::kIdle;
          return;
        }
        wanted_ = false;
      }
      hello_due_ = true;
      ++hellos_;
      asked_at_ = now;
      next_at_ = now + hello_interval_.next();
      return;
    case State::kProving:
      if (probes_ == kMaxProbes) {
        if (drained) rest(now, PathNews::kNotThrough);
        return;
      }
      probe_due_ = true;
      ++probes_;
      next_at_ = now + probe_interval_.next();
      return;
    case State::kUsing:
      if (!unheard_) unheard_since_ = kNever;
      if (unheard_ && drained) doubt(now);
      return;
    case State::kDoubting:
      return on_doubt_timer(now, drained);
    case State::kResting:
      if (wanted_) return ask(now);
      state_ = State::kIdle;
  }
}

void PathChoice::on_doubt_timer(Instant now, bool drained) {
  if (ud_is_dead()) {
    if (!drained) return;
    if (failover_) return rest(now, PathNews::kFailed);
    say(PathNews::kFailed);
  }
  const bool slow = probes_ >= kDoubtProbes && (!answered_ || ud_is_dead());
  if (slow) {
    // A sender without traffic does not need to know.
    if (!wanted_) {
      state_ = State::kIdle;
      return;
    }
    wanted_ = false;
    renewal_due_ = true;
  }
  probe_due_ = true;
  ++probes_;
  if (answered_) ++probes_past_answer_;
  hello_due_ = hello_due_ || !answered_;
  next_at_ = now + (slow ? kLastHelloInterval : kLastProbeInterval);
}

Instant PathChoice::deadline() const {
  if (idle() || state_ == State::kPortDown) return kNever;
  if (state_ != State::kUsing) return next_at_;
  return unheard_since_ == kNever ? kNever : unheard_since_ + kSilence;
}

bool PathChoice::poll_hello(uint64_t& nonce) {
  if (!hello_due_) return false;
  hello_due_ = false;
  nonce = nonce_;
  return true;
}

bool PathChoice::poll_probe(uint64_t& nonce, bool& full) {
  if (!probe_due_) return false;
  probe_due_ = false;
  nonce = nonce_;
  full = state_ == State::kProving;
  return true;
}

std::optional<PathNews> PathChoice::poll_news() {
  const auto news = news_;
  news_.reset();
  return news;
}

}  // namespace rocecoll
