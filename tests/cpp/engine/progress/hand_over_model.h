// SPDX-License-Identifier: Apache-2.0
// A process in miniature around the real HandOver: callers that submit and wait, and the background
// thread. Each move() is what one thread does between two accesses of what others see, in the order
// of engine/progress/progress.cc and engine_lock.cc.
#pragma once

#include <algorithm>
#include <string>

#include "engine/progress/hand_over_world.h"

namespace rocecoll::model {

class Model : public Surroundings {
 public:
  using Surroundings::Surroundings;

  void move(size_t index);
  // Empty, or what is wrong.
  std::string wrong() const;

 private:
  static void forget(Actor& actor);
  void move_once(Actor& actor, size_t index);
  void serve(Actor& actor);
  void submit(Actor& actor, const Caller& caller);
  void wait_for_role(Actor& actor, const Caller& caller);
  void drive(Actor& actor, const Caller& caller);
  void nap(Actor& actor, const Caller& caller);
  void give_up_role(Actor& actor);
};

inline void Model::move(size_t index) {
  move_once(world.actors[index], index);
  forget(world.actors[index]);
}

// What no later move looks at tells no states apart.
inline void Model::forget(Actor& actor) {
  if (!(actor.place == Place::kParked || actor.place == Place::kListening ||
        actor.place == Place::kInLine || actor.place == Place::kNapping)) {
    actor.until = kNoTick;
    actor.notified = false;
  }
  switch (actor.place) {
    case Place::kDuty:
    case Place::kParked:
    case Place::kListen:
    case Place::kListening:
    case Place::kListenEnd:
    case Place::kNapping:
    case Place::kNapEnd:
    case Place::kDrive:
    case Place::kDriveStep:
    case Place::kNap:
    case Place::kWait:
    case Place::kTake:
    case Place::kAwake:
    case Place::kEnd:
      actor.moved = actor.pending = actor.mailed = false;
      actor.next_deadline = kNoTick;
      break;
    default:
      break;
  }
}

inline void Model::move_once(Actor& actor, size_t index) {
  if (actor.wakes != 0) return wake_next(actor);
  if (actor.finishing != 0) return finish_next(actor);
  if (index == 0) return serve(actor);
  const Caller& caller = scenario_.callers[index - 1];
  if (actor.place < Place::kWait) return submit(actor, caller);
  if (actor.place < Place::kDrive) return wait_for_role(actor, caller);
  if (actor.place < Place::kNap) return drive(actor, caller);
  if (actor.place < Place::kAwake) return nap(actor, caller);
  give_up_role(actor);
}

// -- the background thread

inline void Model::serve(Actor& actor) {
  switch (actor.place) {
    case Place::kDuty:
      switch (hand_over().duty(At(world.now))) {
        case HandOver::Duty::kListen:
          actor.place = Place::kListen;
          break;
        case HandOver::Duty::kParkShort:
          actor.until =
              static_cast<Tick>(world.now + hand_over().park_time() / At(1).time_since_epoch());
          actor.place = Place::kParked;
          break;
        case HandOver::Duty::kParkLong:
          actor.until = kNoTick;
          actor.place = Place::kParked;
          break;
        case HandOver::Duty::kStop:
          actor.place = Place::kEnd;
          break;
      }
      break;
    case Place::kParked:
      world.thread_woken = false;
      world.thread_alarm = kNoTick;
      actor.place = Place::kDuty;
      break;
    case Place::kListen:
      lock(actor, Place::kListenUnlock);
      step_or_sleep(actor, hand_over().thread_mark());
      break;
    case Place::kListenUnlock:
      unlock(actor, Place::kListened);
      break;
    case Place::kListened: {
      const HandOver::Wakes wakes = hand_over().listened(actor.pending);
      if (!faulty(Fault::kListensBesideTheDriver)) tell(actor, wakes);
      BeginToFinish(actor);
      actor.until = actor.next_deadline;
      actor.place = actor.moved ? Place::kListenEnd : Place::kListening;
      break;
    }
    case Place::kListening:
      world.thread_woken = false;
      world.thread_alarm = kNoTick;
      actor.place = Place::kListenEnd;
      break;
    default:
      hand_over().thread_mark().set_awake();
      actor.place = Place::kDuty;
  }
}

// -- a caller

inline void Model::submit(Actor& actor, const Caller& caller) {
  const auto own = static_cast<size_t>(std::max(caller.operation, 0));
  switch (actor.place) {
    case Place::kSubmit:
      if (world.lock) {
        actor.place = Place::kMail;
        break;
      }
      lock(actor, Place::kUnlock);
      world.stages[own] = Stage::kIn;
      world.due = true;
      step(actor);
      break;
    case Place::kMail:
      world.stages[own] = Stage::kMailed;
      actor.mailed = true;
      actor.place = Place::kTryAgain;
      break;
    case Place::kTryAgain:
      if (world.lock) {
        actor.next_deadline = kNoTick;
        actor.pending = true;
        actor.place = Place::kAside;
        break;
      }
      lock(actor, Place::kUnlock);
      step(actor);
      break;
    case Place::kLook:
      lock(actor, Place::kUnlock);
      break;
    case Place::kUnlock:
      unlock(actor, Place::kAside);
      break;
    case Place::kAside: {
      const HandOver::Wakes wakes = hand_over().stepped(At(actor.next_deadline));
      if (!faulty(Fault::kStepsAsideOfTheDriver)) tell(actor, wakes);
      BeginToFinish(actor);
      actor.place = Place::kSubmitted;
      break;
    }
    default: {
      const bool waits =
          !caller.asynchronous ||
          (caller.likely_waits &&
           (hand_over().looks_soon() || faulty(Fault::kTakesTheListenerForOneThatLooksSoon)));
      const bool left = !waits && actor.pending;
      const bool ours = caller.submits && waits && !actor.mailed;
      const bool will_drive = ours && !done(caller);
      if (ours) hand_over().met(At(world.now));
      if (!will_drive && !faulty(left ? Fault::kSubmitsWithoutACall : Fault::kSubmitsAndForgets)) {
        tell(actor, hand_over().left(left, At(actor.next_deadline)));
      }
      actor.place = caller.waits ? Place::kWait : Place::kEnd;
    }
  }
}

inline void Model::wait_for_role(Actor& actor, const Caller& caller) {
  switch (actor.place) {
    case Place::kWait:
      actor.place = done(caller) ? Place::kEnd : Place::kTake;
      break;
    case Place::kTake:
      actor.drives = hand_over().take();
      actor.place = actor.drives ? Place::kDrive : Place::kLine;
      break;
    case Place::kLine:
      world.line = true;
      if (!faulty(Fault::kSleepsInLineUnannounced)) hand_over().line_up();
      actor.place = Place::kLineLook;
      break;
    case Place::kLineLook:
      actor.place = done(caller) ? Place::kLeaveLine : Place::kLineTake;
      break;
    case Place::kLineTake:
      actor.drives = hand_over().take();
      actor.place =
          actor.drives || world.now >= caller.patience ? Place::kLeaveLine : Place::kLineSleep;
      break;
    case Place::kLineSleep:
      world.line = actor.notified = false;
      actor.until = caller.patience;
      actor.place = Place::kInLine;
      break;
    case Place::kInLine:
      world.line = true;
      actor.place = Place::kLineLook;
      break;
    default:
      if (!faulty(Fault::kSleepsInLineUnannounced)) hand_over().leave_line();
      world.line = false;
      actor.place = actor.drives ? Place::kDrive : Place::kEnd;
  }
}

inline void Model::drive(Actor& actor, const Caller& caller) {
  switch (actor.place) {
    case Place::kDrive:
      actor.place = done(caller) ? Place::kAwake : Place::kDriveStep;
      break;
    case Place::kDriveStep:
      lock(actor, Place::kDriveUnlock);
      step(actor);
      break;
    case Place::kDriveUnlock:
      unlock(actor, Place::kDrove);
      BeginToFinish(actor);
      break;
    default:
      hand_over().drove(At(world.now));
      actor.place = world.now >= caller.patience ? Place::kAwake
                    : actor.moved                ? Place::kDrive
                                                 : Place::kNap;
  }
}

inline void Model::nap(Actor& actor, const Caller& caller) {
  switch (actor.place) {
    case Place::kNap:
      lock(actor, Place::kNapUnlock);
      step_or_sleep(actor, hand_over().driver_mark());
      break;
    case Place::kNapUnlock:
      unlock(actor, Place::kNapAnnounce);
      BeginToFinish(actor);
      break;
    case Place::kNapAnnounce:
      if (!actor.moved) hand_over().about_to_sleep();
      actor.place = actor.moved ? Place::kNapEnd : Place::kNapLook;
      break;
    case Place::kNapLook:
      actor.until = std::min(actor.next_deadline, caller.patience);
      actor.place = done(caller) && !faulty(Fault::kSleepsWithoutALookAtDone) ? Place::kNapEnd
                                                                              : Place::kNapping;
      break;
    case Place::kNapping:
      world.driver_woken = false;
      actor.place = Place::kNapEnd;
      break;
    default:
      hand_over().driver_mark().set_awake();
      actor.place = Place::kDrive;
  }
}

inline void Model::give_up_role(Actor& actor) {
  const bool too_early = faulty(Fault::kLooksBeforeItLeaves);
  switch (actor.place) {
    case Place::kAwake:
      hand_over().driver_mark().set_awake();
      actor.place = too_early ? Place::kLeft : Place::kGiveUp;
      break;
    case Place::kGiveUp: {
      HandOver::Wakes wakes = hand_over().give_up();
      actor.drives = false;
      wakes.waiters &= !faulty(Fault::kLeavesTheLineAsleep);
      wakes.thread &= !faulty(Fault::kLeavesTheParkedAsleep);
      tell(actor, wakes);
      actor.place = too_early                            ? Place::kLeftCall
                    : faulty(Fault::kLeavesWithoutALook) ? Place::kEnd
                                                         : Place::kLeft;
      break;
    }
    case Place::kLeft:
      lock(actor, Place::kLeftUnlock);
      break;
    case Place::kLeftUnlock:
      unlock(actor, too_early ? Place::kGiveUp : Place::kLeftCall);
      break;
    case Place::kLeftCall: {
      const bool quietly = !actor.pending && faulty(Fault::kLeavesTheListenerAsleep);
      const HandOver::Wakes wakes = hand_over().left(actor.pending, At(actor.next_deadline));
      if (!quietly) tell(actor, wakes);
      actor.place = Place::kLeftAside;
      break;
    }
    default:
      tell(actor, hand_over().stepped(At(actor.next_deadline)));
      BeginToFinish(actor);
      actor.place = Place::kEnd;
  }
}

// -- what must hold

inline std::string Model::wrong() const {
  const auto drivers = std::count_if(world.actors.begin(), world.actors.end(),
                                     [](const Actor& actor) { return actor.drives; });
  if (drivers > 1) return "two drive";
  if (!quiet()) return "";
  if (Any(world.stages, Stage::kMailed)) return "mail is left behind";
  const Actor& thread = world.actors[0];
  const Tick soon =
      static_cast<Tick>(world.now + HandOver::kLongestShortPark / At(1).time_since_epoch());
  const bool looks_soon = Asleep(thread) && thread.place == Place::kParked && thread.until <= soon;
  if (readable() && !looks_soon && !world.stopped) return "nobody reads a packet";
  const bool guessed = std::ranges::any_of(scenario_.callers, &Caller::likely_waits);
  if (pending() && drivers == 0 && !(Asleep(thread) && thread.place == Place::kListening) &&
      !(guessed && looks_soon)) {
    return "the thread has not taken over what is left";
  }
  bool kept = looks_soon;
  const Tick latest = std::max(next_deadline(), soon);
  for (size_t i = 0; i < actors(); ++i) {
    const Actor& actor = world.actors[i];
    const bool steps = actor.place == Place::kListening || actor.place == Place::kNapping;
    if (steps && Asleep(actor) && wakes_at(actor) <= latest) kept = true;
    if (i == 0 || !Asleep(actor)) continue;
    if (done(scenario_.callers[i - 1])) return "a caller sleeps though its operation is done";
    if (actor.place == Place::kInLine && drivers == 0)
      return "a caller sleeps though nobody drives";
  }
  if (!kept && next_deadline() != kNoTick && !world.stopped)
    return "nobody is up for the next deadline";
  for (size_t i = 0; i < kMost; ++i) {
    if (packet_may_come(i)) return "";
  }
  if (time_may_pass() || may_stop()) return "";
  for (const Actor& actor : world.actors) {
    if (actor.place != Place::kEnd) return "a thread sleeps for ever";
  }
  return "";
}

}  // namespace rocecoll::model
