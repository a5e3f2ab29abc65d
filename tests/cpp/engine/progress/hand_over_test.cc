// SPDX-License-Identifier: Apache-2.0
// Every order in which a few threads may take the steps of the hand-over, packets come and time
// passes: depth first, each state once. Sequential consistency is enough, as every step is a
// read-modify-write (acquire and release) of one word, or an access of a mark that is ordered by
// one or by the lock.
#include "engine/progress/hand_over.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "engine/progress/hand_over_model.h"

namespace rocecoll::model {
namespace {

// One thing that may happen next: a thread moves (0 is the background one), or what comes from
// outside.
constexpr int kActors = kMost + 1;
constexpr int kTime = kActors + kMost;
constexpr int kStop = kTime + 1;
constexpr int kChoices = kStop + 1;

bool Possible(const Model& model, int choice) {
  if (choice < kActors) {
    const auto actor = static_cast<size_t>(choice);
    return actor < model.actors() && model.enabled(actor);
  }
  if (choice < kTime) return model.packet_may_come(static_cast<size_t>(choice - kActors));
  return choice == kTime ? model.time_may_pass() : model.may_stop();
}

void Take(Model& model, int choice) {
  if (choice < kActors) return model.move(static_cast<size_t>(choice));
  if (choice < kTime) return model.packet_comes(static_cast<size_t>(choice - kActors));
  if (choice == kTime) return model.time_passes();
  model.stop();
}

std::string Describe(const World& world, int choice) {
  const std::string now = "\n  at " + std::to_string(world.now) + " ms ";
  if (choice < kActors) {
    const Actor& actor = world.actors[static_cast<size_t>(choice)];
    std::string what = "goes on from place " + std::to_string(static_cast<int>(actor.place));
    if (actor.finishing != 0) what = "finishes operations " + std::to_string(actor.completed);
    if (actor.wakes != 0) what = "wakes " + std::to_string(actor.wakes);
    return now + (choice == 0 ? "the thread " : "caller " + std::to_string(choice) + " ") + what;
  }
  if (choice < kTime) return now + "packet " + std::to_string(choice - kActors) + " comes";
  return now + (choice == kTime ? "time passes" : "the process ends");
}

struct Explored {
  size_t states = 0;
  size_t ends = 0;    // states after which nothing can happen
  std::string wrong;  // with the way that leads there
};

Explored Explore(const Scenario& scenario, Fault fault = Fault::kNone) {
  struct Frame {
    World world;
    int next = 0;
    bool last = true;  // so far nothing could follow
  };
  // States are known by 64 bits of hash: a chance of one in millions that one is left out.
  std::unordered_set<size_t> seen;
  const auto is_new = [&](const World& world) {
    const std::string_view bytes(reinterpret_cast<const char*>(&world), sizeof(world));
    return seen.insert(std::hash<std::string_view>()(bytes)).second;
  };
  Model model(scenario, fault);
  std::vector<Frame> path{{model.world}};
  Explored explored;
  is_new(model.world);
  while (!path.empty()) {
    Frame& frame = path.back();
    model.world = frame.world;
    while (frame.next < kChoices && !Possible(model, frame.next)) ++frame.next;
    if (frame.next == kChoices) {
      if (frame.last) ++explored.ends;
      path.pop_back();
      continue;
    }
    Take(model, frame.next++);
    frame.last = false;
    if (!is_new(model.world)) continue;
    path.push_back({model.world});
    explored.wrong = model.wrong();
    if (explored.wrong.empty()) continue;
    path.pop_back();
    for (const Frame& way : path) explored.wrong += Describe(way.world, way.next - 1);
    break;
  }
  explored.states = seen.size();
  return explored;
}

struct Named {
  const char* name;
  Scenario scenario;
};

// Callers, and the deadlines of their operations; the process begins at 10 ms.
const Named kScenarios[] = {
    {"OneWaits", {{Calls(0)}, {kNoTick}, 30, 4}},
    {"OneWaitsForADeadline", {{Calls(0)}, {20}, 30, 4}},
    {"OneLeavesWorkBehind", {{CallsUntil(0, 14)}, {kNoTick}, kNoTick, 4}},
    {"OneLeavesADeadlineBehind", {{CallsUntil(0, 12)}, {20}, 30, 4}},
    {"NobodyWaits", {{Submits(0), Submits(1)}, {kNoTick, 20}, kNoTick, 2}},
    {"TwoWait", {{Calls(0), Calls(1)}, {kNoTick, kNoTick}, 30}},
    {"TwoWaitAndOneDeadlineIsNear", {{Calls(0), Calls(1)}, {kNoTick, 16}}},
    {"TwoWaitForOne", {{Calls(0), Waits(0)}, {kNoTick}, kNoTick, 1}},
    {"OneWaitsOneDoesNot", {{Calls(0), Submits(1)}, {kNoTick, kNoTick}, 30}},
    {"OneWaitsAndAnotherDeadlineIsNear", {{Calls(0), Submits(1)}, {kNoTick, 16}, kNoTick, 1}},
    {"OneLeavesOneWaits", {{CallsUntil(0, 14), Calls(1)}, {kNoTick, kNoTick}}},
    {"OneWaitsLater", {{Calls(0), SubmitsAndWaits(1)}, {kNoTick, 16}}},
    {"OneIsTakenToWait", {{Calls(0), OnlySubmits(1)}, {kNoTick, kNoTick}}},
    {"OneIsTakenToWaitForADeadline", {{Calls(0), OnlySubmits(1)}, {kNoTick, 16}, kNoTick, 1}},
    {"OneLooks", {{Calls(0), Submits(1), Looks()}, {20, 16}}},
};

const Scenario& ScenarioOf(std::string_view name) {
  for (const Named& named : kScenarios) {
    if (named.name == name) return named.scenario;
  }
  ADD_FAILURE() << "no scenario " << name;
  return kScenarios[0].scenario;
}

class HandOverOf : public testing::TestWithParam<Named> {};

TEST_P(HandOverOf, LosesNoWakeUpInAnyOrder) {
  const Explored explored = Explore(GetParam().scenario);
  EXPECT_EQ(explored.wrong, "");
  EXPECT_GT(explored.ends, 0u);
  RecordProperty("states", static_cast<int>(explored.states));
}

INSTANTIATE_TEST_SUITE_P(Callers, HandOverOf, testing::ValuesIn(kScenarios),
                         [](const auto& info) { return info.param.name; });

void Drive(HandOver& hand_over, Instant now) {
  EXPECT_TRUE(hand_over.take());
  hand_over.drove(now);
  hand_over.give_up();
}

// How long the thread parks, one park after the other, while callers drive so often.
std::vector<Duration> Parks(HandOver& hand_over, Instant& now, Duration every, int count) {
  std::vector<Duration> parks;
  for (; count > 0; --count) {
    Drive(hand_over, now);
    EXPECT_EQ(hand_over.duty(now), HandOver::Duty::kParkShort);
    parks.push_back(hand_over.park_time());
    const Instant end = now + hand_over.park_time();
    for (now += every; now < end; now += every) Drive(hand_over, now);
    now = end;
  }
  return parks;
}

TEST(HandOverParks, AreLongerWhileAnythingDrives) {
  using std::chrono::milliseconds;
  const std::vector<Duration> longer = {milliseconds(2),  milliseconds(4),  milliseconds(8),
                                        milliseconds(16), milliseconds(32), milliseconds(32)};
  HandOver hand_over;
  Instant now{};
  EXPECT_EQ(Parks(hand_over, now, milliseconds(1), 6), longer);
  now += std::chrono::seconds(1);
  EXPECT_EQ(hand_over.duty(now), HandOver::Duty::kListen);
  EXPECT_EQ(Parks(hand_over, now, HandOver::kAway, 6), longer);
}

TEST(HandOverParks, AreShortAgainOnceCallersWereAwayForLong) {
  HandOver hand_over;
  Instant now = Instant{} + std::chrono::hours(1);
  Parks(hand_over, now, std::chrono::milliseconds(1), 3);
  ASSERT_EQ(hand_over.park_time(), 4 * HandOver::kShortPark);
  Drive(hand_over, now);
  now += HandOver::kAway;
  EXPECT_EQ(hand_over.duty(now), HandOver::Duty::kListen);  // a thread that is late sees nobody
  Drive(hand_over, now);
  EXPECT_EQ(hand_over.duty(now), HandOver::Duty::kParkShort);
  EXPECT_EQ(hand_over.park_time(), 8 * HandOver::kShortPark);
  now += HandOver::kAway + std::chrono::microseconds(1);
  Drive(hand_over, now);
  EXPECT_EQ(hand_over.duty(now), HandOver::Duty::kParkShort);
  EXPECT_EQ(hand_over.park_time(), HandOver::kShortPark);
}

// Where others use its core a caller that only calls is away for longer than kAway now and then.
TEST(HandOverParks, AreLongerWhereCallersWereAwayForLessThanHalfOfTheTime) {
  HandOver hand_over;
  Instant now = Instant{} + std::chrono::hours(1);
  Parks(hand_over, now, std::chrono::milliseconds(1), 3);
  const Duration away = HandOver::kAway + std::chrono::milliseconds(1);
  for (const bool mostly : {false, true}) {
    Drive(hand_over, now);
    EXPECT_EQ(hand_over.duty(now), HandOver::Duty::kParkShort);
    const Instant end = now + 2 * away + std::chrono::milliseconds(mostly ? -1 : 1);
    now += away;
    Drive(hand_over, now);
    while (now < end) Drive(hand_over, now += std::chrono::microseconds(500));
    EXPECT_EQ(hand_over.duty(now), HandOver::Duty::kParkShort);
    EXPECT_EQ(hand_over.park_time(), HandOver::kShortPark * (mostly ? 1 : 16));
  }
}

// A step may take long where the machine is slow, and nobody was away.
TEST(HandOverParks, AreLongerWhileOneDriverDrives) {
  HandOver hand_over;
  Instant now = Instant{} + std::chrono::hours(1);
  Parks(hand_over, now, std::chrono::milliseconds(1), 3);
  ASSERT_TRUE(hand_over.take());
  for (int step = 0; step < 3; ++step, now += 2 * HandOver::kAway) hand_over.drove(now);
  EXPECT_EQ(hand_over.duty(now), HandOver::Duty::kParkShort);
  EXPECT_EQ(hand_over.park_time(), 8 * HandOver::kShortPark);
}

// Else each of them ends with a wake-up, which makes the next one last as long.
TEST(HandOverParks, OutlastOperationsThatFollowEachOther) {
  HandOver hand_over;
  Instant thread_wakes = Instant{} + std::chrono::hours(1);
  Instant now = thread_wakes;
  int woken = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(hand_over.take());
    const Instant end = now + std::chrono::milliseconds(10);
    for (; now < end; now += std::chrono::microseconds(500)) {
      hand_over.drove(now);
      if (now < thread_wakes) continue;
      const bool is_long = hand_over.duty(now) == HandOver::Duty::kParkLong;
      thread_wakes = is_long ? Instant::max() : now + hand_over.park_time();
    }
    if (!hand_over.give_up().thread) continue;
    ++woken;
    thread_wakes = now;
  }
  EXPECT_LE(woken, 5);
}

// The later of two ranks: what it waits for is there when it asks. Each packet would wake a thread
// that listened.
TEST(HandOverParks, WhileOperationsAreDoneBySubmittingThem) {
  HandOver hand_over;
  Instant now = Instant{} + std::chrono::hours(1);
  EXPECT_EQ(hand_over.duty(now), HandOver::Duty::kListen);
  for (const int longer : {1, 2, 4, 8, 16, 16}) {
    hand_over.met(now);
    EXPECT_EQ(hand_over.duty(now), HandOver::Duty::kParkShort);
    EXPECT_EQ(hand_over.park_time(), HandOver::kShortPark * longer);
    for (const Instant end = now + hand_over.park_time(); now < end; now += HandOver::kShortPark) {
      hand_over.met(now);
    }
  }
  now += HandOver::kRecently;
  EXPECT_EQ(hand_over.duty(now), HandOver::Duty::kListen);
}

// What somebody forgets, where it is found out, and how.
struct Forgotten {
  const char* name;
  Fault fault;
  const char* scenario;
  const char* wrong;
};

const char* const kAsleepThoughDone = "a caller sleeps though its operation is done";
const char* const kAsleepInLine = "a caller sleeps though nobody drives";
const char* const kDeadline = "nobody is up for the next deadline";
const char* const kLeft = "the thread has not taken over what is left";

class HandOverWithout : public testing::TestWithParam<Forgotten> {};

TEST_P(HandOverWithout, IsFoundOut) {
  const Forgotten& forgotten = GetParam();
  const Explored explored = Explore(ScenarioOf(forgotten.scenario), forgotten.fault);
  EXPECT_TRUE(explored.wrong.starts_with(forgotten.wrong)) << explored.wrong;
}

INSTANTIATE_TEST_SUITE_P(
    Faults, HandOverWithout,
    testing::Values(
        Forgotten{"SettingDoneBeforeTheLook", Fault::kSetsDoneAfterTheLook, "OneWaits",
                  kAsleepThoughDone},
        Forgotten{"ALookAtDoneBeforeSleep", Fault::kSleepsWithoutALookAtDone, "OneWaits",
                  kAsleepThoughDone},
        Forgotten{"LiningUp", Fault::kSleepsInLineUnannounced, "TwoWait", kAsleepInLine},
        Forgotten{"TheMutexOfTheLine", Fault::kWakesTheLineWithoutItsMutex, "TwoWait",
                  kAsleepInLine},
        Forgotten{"WakingTheLine", Fault::kLeavesTheLineAsleep, "TwoWait", kAsleepInLine},
        Forgotten{"WakingTheParked", Fault::kLeavesTheParkedAsleep, "OneWaitsForADeadline",
                  kDeadline},
        Forgotten{"ALookAfterLeaving", Fault::kLeavesWithoutALook, "OneWaitsForADeadline",
                  kDeadline},
        Forgotten{"LeavingBeforeTheLook", Fault::kLooksBeforeItLeaves, "OneWaitsOneDoesNot", kLeft},
        Forgotten{"WakingTheListener", Fault::kLeavesTheListenerAsleep, "OneWaitsForADeadline",
                  kDeadline},
        Forgotten{"ACall", Fault::kSubmitsWithoutACall, "NobodyWaits", kDeadline},
        Forgotten{"WhetherTheThreadLooksSoon", Fault::kTakesTheListenerForOneThatLooksSoon,
                  "OneIsTakenToWaitForADeadline", kDeadline},
        Forgotten{"TheListenerAfterASubmit", Fault::kSubmitsAndForgets, "OneWaits", kDeadline},
        Forgotten{"WakingTheDriver", Fault::kStepsAsideOfTheDriver, "TwoWaitAndOneDeadlineIsNear",
                  kDeadline},
        Forgotten{"TheListenersWake", Fault::kListensBesideTheDriver, "TwoWaitAndOneDeadlineIsNear",
                  kDeadline},
        Forgotten{"StickyWakers", Fault::kLosesEarlyWakes, "OneLeavesADeadlineBehind", kDeadline},
        Forgotten{"ALookAtMail", Fault::kSleepsOverMail, "TwoWaitAndOneDeadlineIsNear", kDeadline}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace rocecoll::model
