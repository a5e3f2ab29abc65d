// SPDX-License-Identifier: Apache-2.0
// The process's one runtime. Each test has a process of its own: the owner lives as long.
#include "runtime/runtime_owner.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/in_child.h"

namespace rocecoll {
namespace {

const OptionValues kSettings = {{"ecn", true}, {"lane_bytes", uint64_t{65536}}};
const OptionValues kOthers = {{"ecn", false}, {"lane_bytes", uint64_t{8192}}};

std::shared_ptr<Runtime> Start(const OptionValues& settings) {
  auto started = RuntimeOwner::instance().start(settings);
  EXPECT_TRUE(started.ok()) << started.status().message();
  return started.ok() ? started.take() : nullptr;
}

GroupId AddGroup(const Runtime& runtime) {
  GroupSpec spec;
  spec.name = "alone";
  spec.key = {1, 2};
  spec.addresses = {runtime.progress().address()};
  spec.timeout = std::chrono::seconds(300);
  auto added = runtime.progress().add_group(std::move(spec));
  EXPECT_TRUE(added.ok()) << added.status().message();
  return added.ok() ? added.value() : 0;
}

bool Runs(const Runtime& runtime) { return !runtime.progress().state().shut_down; }

TEST(RuntimeOwner, GivesTheOneThatRunsForTheSameSettings) {
  EXPECT_TRUE(InChild([] {
    const auto first = Start(kSettings);
    const auto again = Start(kSettings);
    EXPECT_EQ(first->settings(), kSettings);
    EXPECT_EQ(first->options().engine.lane_bytes, 65536);
    return again == first && Runs(*first);
  }));
}

TEST(RuntimeOwner, KeepsItsSettingsWhileGroupsExist) {
  EXPECT_TRUE(InChild([] {
    const auto first = Start(kSettings);
    const GroupId group = AddGroup(*first);
    EXPECT_EQ(Start(kOthers), first);
    EXPECT_EQ(Start({}), first);
    EXPECT_EQ(first->settings(), kSettings);
    first->progress().remove_group(group);
    return Runs(*first) && Start(kSettings) == first;
  }));
}

TEST(RuntimeOwner, StartsAnewWithOtherSettingsOnceNoGroupExists) {
  EXPECT_TRUE(InChild([] {
    const auto first = Start(kSettings);
    first->progress().remove_group(AddGroup(*first));
    const auto second = Start(kOthers);
    EXPECT_NE(second, first);
    EXPECT_FALSE(Runs(*first));
    EXPECT_EQ(second->options().engine.lane_bytes, 8192);
    return Runs(*second) && Start(kOthers) == second;
  }));
}

TEST(RuntimeOwner, StartsAnewAfterTheShutdownOfTheOneThatRan) {
  EXPECT_TRUE(InChild([] {
    const auto first = Start({});
    EXPECT_EQ(Start({}), first);
    first->progress().shutdown(Duration{0});
    const auto second = Start({});
    EXPECT_NE(second, first);
    return Runs(*second);
  }));
}

TEST(RuntimeOwner, AnOldOneIsGoneWithItsSocketBeforeTheNextStarts) {
  EXPECT_TRUE(InChild([] {
    auto first = Start(kSettings);
    const std::string address = first->progress().address().text();
    const uint64_t port = std::stoull(address.substr(address.rfind(':') + 1));
    first.reset();
    const auto second = Start({{"port_range", PortRange{port, port}}});
    return second->progress().address().text() == address;
  }));
}

TEST(RuntimeOwner, AfterABadSettingTheOldOneRuns) {
  EXPECT_TRUE(InChild([] {
    const auto first = Start(kSettings);
    const auto refused = RuntimeOwner::instance().start({{"udp_magic", true}});
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
    return Runs(*first) && Start(kSettings) == first;
  }));
}

TEST(RuntimeOwner, CountsNothingBeforeItStarts) {
  EXPECT_TRUE(InChild([] {
    return RuntimeOwner::instance().stats().packets_sent == 0 &&
           RuntimeOwner::instance().state().groups == 0;
  }));
}

TEST(RuntimeOwner, GoesOnCountingWhenItStartsAnew) {
  EXPECT_TRUE(InChild([] {
    RuntimeOwner& owner = RuntimeOwner::instance();
    const auto first = Start(kSettings);
    const auto peer = ParseAddress("127.0.0.1:9");
    GroupSpec spec;
    spec.name = "pair";
    spec.key = {1, 2};
    spec.addresses = {first->progress().address(), peer.value()};
    spec.timeout = std::chrono::seconds(300);
    const auto group = first->progress().add_group(std::move(spec));
    EXPECT_TRUE(group.ok());
    // The other rank is told.
    first->progress().abort(group.value(), Status(StatusCode::kAborted, "enough"));
    first->progress().remove_group(group.value());
    const TransportStats before = owner.stats();
    EXPECT_GT(before.packets_sent, 0);
    EXPECT_NE(Start(kOthers), first);
    EXPECT_GE(owner.stats().packets_sent, before.packets_sent);
    const TransportStats later = owner.stats();
    owner.end();
    return owner.stats().packets_sent >= later.packets_sent;
  }));
}

TEST(RuntimeOwner, CountsTheGroupsOfTheOneThatRuns) {
  EXPECT_TRUE(InChild([] {
    const auto started = Start({});
    const GroupId group = AddGroup(*started);
    started->progress().abort(group, Status(StatusCode::kAborted, "enough"));
    const EngineState state = RuntimeOwner::instance().state();
    return state.groups == 1 && state.failed_groups == 1;
  }));
}

TEST(RuntimeOwner, EndsForGood) {
  EXPECT_TRUE(InChild([] {
    RuntimeOwner& owner = RuntimeOwner::instance();
    const auto started = Start({});
    AddGroup(*started);
    const TransportStats before = owner.stats();
    owner.end();
    owner.end();
    EXPECT_FALSE(Runs(*started));
    EXPECT_GE(owner.stats().packets_sent, before.packets_sent);
    const auto refused = owner.start({});
    EXPECT_EQ(refused.status().message(), "rocecoll: the runtime has been shut down");
    return started.use_count() == 1;
  }));
}

TEST(RuntimeOwner, AForkedChildBeginsAnew) {
  EXPECT_TRUE(InChild([] {
    auto parents = Start(kSettings);
    AddGroup(*parents);
    const std::string address = parents->progress().address().text();
    EXPECT_FALSE(parents->forked());
    EXPECT_TRUE(InChild([&] {
      EXPECT_TRUE(parents->forked());
      EXPECT_EQ(RuntimeOwner::instance().state().groups, 0);
      const auto own = Start(kOthers);
      EXPECT_FALSE(own->forked());
      EXPECT_NE(own->progress().address().text(), address);
      EXPECT_EQ(Start(kOthers), own);
      RuntimeOwner::instance().end();
      return true;
    }));
    return Start(kSettings) == parents && Runs(*parents);
  }));
}

TEST(RuntimeOwner, AForkedChildTearsNothingDown) {
  EXPECT_TRUE(InChild([] {
    auto first = Start(kSettings);
    Start(kOthers);
    EXPECT_EQ(first.use_count(), 1);
    return InChild([&] {
      first.reset();  // there is no thread to join
      return true;
    });
  }));
}

TEST(RuntimeOwner, AChildOfAnEndedOneMayBegin) {
  EXPECT_TRUE(InChild([] {
    Start({});
    RuntimeOwner::instance().end();
    return InChild([] { return Runs(*Start({})); });
  }));
}

}  // namespace
}  // namespace rocecoll
