// SPDX-License-Identifier: Apache-2.0
// What is around the threads that hand over to each other, in miniature: an engine under its lock
// with a mailbox, packets, deadlines, wakers, a line, time as a number. It is bytes, to be copied,
// put back and remembered.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/progress/hand_over.h"

namespace rocecoll::model {

using Tick = uint8_t;  // milliseconds
constexpr Tick kNoTick = 255;
inline Instant At(Tick tick) {
  return tick == kNoTick ? kNever : Instant(std::chrono::milliseconds(tick));
}

constexpr size_t kMost = 3;  // callers, and operations

// What a caller does: it submits, waits, or both; or only looks, as stats() does.
struct Caller {
  int operation = -1;
  bool submits = false;
  bool asynchronous = false;
  bool likely_waits = false;
  bool waits = false;
  Tick patience = kNoTick;  // until when it waits
};
inline Caller Calls(int operation) { return {operation, true, false, false, true}; }
inline Caller CallsUntil(int operation, Tick patience) {
  return {operation, true, false, false, true, patience};
}
inline Caller Submits(int operation) { return {operation, true, true, false, false}; }
inline Caller SubmitsAndWaits(int operation) { return {operation, true, true, false, true}; }
// It is taken to wait at once, and computes.
inline Caller OnlySubmits(int operation) { return {operation, true, true, true, false}; }
inline Caller Waits(int operation) { return {operation, false, false, false, true}; }
inline Caller Looks() { return {}; }

struct Scenario {
  std::vector<Caller> callers;
  std::vector<Tick> deadlines;  // of the operations; kNoTick: a packet completes it
  Tick timer = kNoTick;         // a connection's, that the first completion leaves behind
  uint8_t ticks = 0;            // how often time may pass while somebody could move
};

// What somebody forgets: each is found.
enum class Fault {
  kNone,
  kSetsDoneAfterTheLook,
  kSleepsWithoutALookAtDone,
  kSleepsInLineUnannounced,
  kWakesTheLineWithoutItsMutex,
  kLeavesTheLineAsleep,
  kLeavesTheParkedAsleep,
  kLeavesWithoutALook,
  kLooksBeforeItLeaves,
  kLeavesTheListenerAsleep,
  kSubmitsWithoutACall,
  kSubmitsAndForgets,
  kTakesTheListenerForOneThatLooksSoon,
  kStepsAsideOfTheDriver,
  kListensBesideTheDriver,
  kLosesEarlyWakes,
  kSleepsOverMail,
};

enum class Place : uint8_t {
  // The background thread. Asleep: kParked, kListening.
  kDuty,
  kParked,
  kListen,
  kListenUnlock,
  kListened,
  kListening,
  kListenEnd,
  // A caller submits, or looks.
  kSubmit,
  kMail,
  kTryAgain,
  kLook,
  kUnlock,
  kAside,
  kSubmitted,
  // It waits for the role. Asleep: kInLine.
  kWait,
  kTake,
  kLine,
  kLineLook,
  kLineTake,
  kLineSleep,
  kInLine,
  kLeaveLine,
  // It drives. Asleep: kNapping.
  kDrive,
  kDriveStep,
  kDriveUnlock,
  kDrove,
  kNap,
  kNapUnlock,
  kNapAnnounce,
  kNapLook,
  kNapping,
  kNapEnd,
  // It gives up the role.
  kAwake,
  kGiveUp,
  kLeft,
  kLeftUnlock,
  kLeftCall,
  kLeftAside,
  kEnd,
};

enum class Stage : uint8_t { kAbsent, kMailed, kIn, kCompleted, kDone };
enum class Packet : uint8_t { kUnsent, kArrived, kRead };

struct Actor {
  enum Wake : uint8_t {
    kPassLine = 1,
    kNotifyLine = 2,
    kDriver = 4,
    kThread = 8,
    kThreadSoon = 16
  };
  Place place = Place::kSubmit;
  uint8_t wakes = 0;      // still to be done, before all else
  uint8_t finishing = 0;  // completed operations, next; 2: has looked for sleepers already
  uint8_t completed = 0;  // operations, taken from under the lock
  bool moved = false;     // the outcome under the lock
  bool pending = false;
  Tick next_deadline = kNoTick;
  Tick until = kNoTick;  // asleep
  bool notified = false;
  bool drives = false;
  bool mailed = false;
  bool unused = false;  // so that no byte is padding
};

struct World {
  alignas(HandOver) std::array<std::byte, sizeof(HandOver)> hand_over{};
  std::array<Actor, kMost + 1> actors{};  // 0 is the background thread
  std::array<Stage, kMost> stages{};
  std::array<Packet, kMost> packets{};
  Tick timer = kNoTick;
  Tick thread_alarm = kNoTick;
  Tick now = 10;
  uint8_t ticks_left = 0;
  bool due = false;  // submitted under the lock, not stepped since: the engine's deadline is now
  bool lock = false;
  bool line = false;  // the mutex of the line
  bool driver_woken = false;
  bool thread_woken = false;
  bool stopped = false;
};
static_assert(std::is_trivially_copyable_v<World>);
static_assert(std::has_unique_object_representations_v<World>);

// Everything but the threads themselves.
class Surroundings {
 public:
  Surroundings(const Scenario& scenario, Fault fault) : scenario_(scenario), fault_(fault) {
    new (world.hand_over.data()) HandOver;
    world.actors[0].place = Place::kDuty;
    for (size_t i = 1; i < actors(); ++i) {
      const Caller& caller = scenario_.callers[i - 1];
      world.actors[i].place = caller.submits ? Place::kSubmit
                              : caller.waits ? Place::kWait
                                             : Place::kLook;
    }
    for (size_t i = actors(); i <= kMost; ++i) world.actors[i].place = Place::kEnd;
    world.ticks_left = scenario_.ticks;
  }

  World world;

  size_t actors() const { return scenario_.callers.size() + 1; }
  bool enabled(size_t index) const;
  // Nobody can move until a packet or time comes.
  bool quiet() const {
    for (size_t i = 0; i < actors(); ++i) {
      if (enabled(i)) return false;
    }
    return true;
  }
  // What comes from outside.
  bool packet_may_come(size_t operation) const {
    return operation < scenario_.deadlines.size() && scenario_.deadlines[operation] == kNoTick &&
           world.packets[operation] == Packet::kUnsent;
  }
  void packet_comes(size_t operation) { world.packets[operation] = Packet::kArrived; }
  bool time_may_pass() const {
    return quiet() ? earliest_alarm() != kNoTick : world.ticks_left > 0;
  }
  void time_passes() {
    if (quiet()) {
      world.now = earliest_alarm();
    } else {
      ++world.now;
      --world.ticks_left;
    }
  }
  // The end of the process: nothing is left to do.
  bool may_stop() const {
    const auto ended = [](const Actor& actor) {
      return actor.place == Place::kEnd && actor.wakes == 0 && actor.finishing == 0;
    };
    const auto over = [](Stage stage) { return stage == Stage::kAbsent || stage == Stage::kDone; };
    return !world.stopped && std::all_of(world.actors.begin() + 1, world.actors.end(), ended) &&
           std::all_of(world.stages.begin(), world.stages.end(), over);
  }
  void stop() {
    world.stopped = true;
    if (hand_over().stop().thread) world.thread_woken = true;
  }

 protected:
  HandOver& hand_over() {
    return *std::launder(reinterpret_cast<HandOver*>(world.hand_over.data()));
  }
  bool faulty(Fault fault) const { return fault_ == fault; }
  bool readable() const { return Any(world.packets, Packet::kArrived); }
  bool pending() const { return Any(world.stages, Stage::kIn); }
  template <typename Values, typename Value>
  static bool Any(const Values& values, Value value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  }
  bool done(const Caller& caller) const {
    return world.stages[static_cast<size_t>(caller.operation)] == Stage::kDone;
  }
  static bool Asleep(const Actor& actor) {
    return actor.wakes == 0 && actor.finishing == 0 &&
           (actor.place == Place::kParked || actor.place == Place::kListening ||
            actor.place == Place::kInLine || actor.place == Place::kNapping);
  }
  bool is_thread(const Actor& actor) const { return &actor == world.actors.data(); }
  Tick wakes_at(const Actor& actor) const {
    return is_thread(actor) ? std::min(actor.until, world.thread_alarm) : actor.until;
  }
  // When the first sleeper gets up by itself.
  Tick earliest_alarm() const {
    Tick earliest = kNoTick;
    for (const Actor& actor : world.actors) {
      if (Asleep(actor)) earliest = std::min(earliest, wakes_at(actor));
    }
    return earliest;
  }

  Tick next_deadline() const;
  void take_mail(Actor& actor);
  void lock(Actor& actor, Place then);
  void step(Actor& actor);
  void step_or_sleep(Actor& actor, SleepMark& mark);
  void unlock(Actor& actor, Place then);

  void tell(Actor& actor, HandOver::Wakes wakes);
  void wake_next(Actor& actor);
  void finish_next(Actor& actor);
  static void BeginToFinish(Actor& actor) { actor.finishing = actor.completed != 0 ? 1 : 0; }

  const Scenario& scenario_;
  const Fault fault_;
};

inline bool Surroundings::enabled(size_t index) const {
  const Actor& actor = world.actors[index];
  if ((actor.wakes & Actor::kPassLine) != 0) return !world.line;
  if (actor.wakes != 0 || actor.finishing != 0) return true;
  const bool alarm = world.now >= wakes_at(actor);
  switch (actor.place) {
    case Place::kEnd:
      return false;
    case Place::kParked:
      return world.thread_woken || alarm;
    case Place::kListening:
      return world.thread_woken || readable() || alarm;
    case Place::kNapping:
      return world.driver_woken || readable() || alarm;
    case Place::kInLine:
      return (actor.notified || alarm) && !world.line;
    case Place::kLine:
      return !world.line;
    case Place::kListen:
    case Place::kLook:
    case Place::kDriveStep:
    case Place::kNap:
    case Place::kLeft:
      return !world.lock;
    default:
      return true;
  }
}

// -- the engine, under its lock

inline Tick Surroundings::next_deadline() const {
  if (world.due) return 0;
  Tick next = world.timer;
  for (size_t i = 0; i < scenario_.deadlines.size(); ++i) {
    if (world.stages[i] == Stage::kIn) next = std::min(next, scenario_.deadlines[i]);
  }
  return next;
}

inline void Surroundings::take_mail(Actor& actor) {
  for (Stage& stage : world.stages) {
    if (stage != Stage::kMailed) continue;
    stage = Stage::kIn;
    world.due = actor.moved = true;
  }
}

inline void Surroundings::lock(Actor& actor, Place then) {
  world.lock = true;
  actor.moved = false;
  take_mail(actor);
  actor.next_deadline = next_deadline();
  actor.place = then;
}

inline void Surroundings::step(Actor& actor) {
  if (world.due || readable() || world.timer <= world.now) actor.moved = true;
  world.due = false;
  if (world.timer <= world.now) world.timer = kNoTick;
  std::replace(world.packets.begin(), world.packets.end(), Packet::kArrived, Packet::kRead);
  for (size_t i = 0; i < scenario_.deadlines.size(); ++i) {
    const bool over = world.packets[i] == Packet::kRead || scenario_.deadlines[i] <= world.now;
    if (world.stages[i] != Stage::kIn || !over) continue;
    world.stages[i] = Stage::kCompleted;
    actor.completed |= static_cast<uint8_t>(1 << i);
    actor.moved = true;
    if (i == 0) world.timer = scenario_.timer;
  }
  actor.next_deadline = next_deadline();
}

inline void Surroundings::step_or_sleep(Actor& actor, SleepMark& mark) {
  step(actor);
  if (!actor.moved) mark.set_asleep(At(actor.next_deadline));
}

// Steps for mail that came meanwhile, as EngineLock does, whose own test has all of it.
inline void Surroundings::unlock(Actor& actor, Place then) {
  if (Any(world.stages, Stage::kMailed)) {
    const bool moved = actor.moved;
    const Tick next = actor.next_deadline;
    take_mail(actor);
    step(actor);
    if (faulty(Fault::kSleepsOverMail)) {
      actor.moved = moved;
      actor.next_deadline = next;
    }
  }
  actor.pending = pending();
  world.lock = false;
  actor.place = then;
}

// -- what several do

inline void Surroundings::tell(Actor& actor, HandOver::Wakes wakes) {
  if (wakes.waiters) actor.wakes |= Actor::kPassLine | Actor::kNotifyLine;
  if (wakes.driver) actor.wakes |= Actor::kDriver;
  if (wakes.thread) actor.wakes |= Actor::kThread;
  if (wakes.thread_soon) actor.wakes |= Actor::kThreadSoon;
  if (faulty(Fault::kWakesTheLineWithoutItsMutex)) {
    actor.wakes &= static_cast<uint8_t>(~Actor::kPassLine);
  }
}

inline void Surroundings::wake_next(Actor& actor) {
  const uint8_t next = actor.wakes & static_cast<uint8_t>(-actor.wakes);
  actor.wakes ^= next;
  const bool sticky = !faulty(Fault::kLosesEarlyWakes);
  const auto sleeps = [this](Place place) {
    return std::any_of(world.actors.begin(), world.actors.end(), [place](const Actor& other) {
      return Asleep(other) && other.place == place;
    });
  };
  switch (next) {
    case Actor::kNotifyLine:
      for (Actor& other : world.actors) {
        if (other.place == Place::kInLine) other.notified = true;
      }
      break;
    case Actor::kDriver:
      world.driver_woken |= sticky || sleeps(Place::kNapping);
      break;
    case Actor::kThread:
      world.thread_woken |= sticky || sleeps(Place::kParked) || sleeps(Place::kListening);
      break;
    case Actor::kThreadSoon:
      if (world.thread_alarm == kNoTick) {
        world.thread_alarm =
            static_cast<Tick>(world.now + HandOver::kShortPark / At(1).time_since_epoch());
      }
      break;
    default:
      break;
  }
}

inline void Surroundings::finish_next(Actor& actor) {
  const bool early = faulty(Fault::kSetsDoneAfterTheLook);
  if (actor.completed == 0 || (early && actor.finishing == 1)) {
    if (actor.finishing == 1) tell(actor, hand_over().completed());
    actor.finishing = actor.completed == 0 ? 0 : 2;
    return;
  }
  for (size_t i = 0; i < kMost; ++i) {
    const auto bit = static_cast<uint8_t>(1 << i);
    if ((actor.completed & bit) == 0) continue;
    actor.completed ^= bit;
    world.stages[i] = Stage::kDone;
    return;
  }
}

}  // namespace rocecoll::model
