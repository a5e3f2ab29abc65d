// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <algorithm>
#include <array>
#include <exception>
#include <iterator>
#include <map>
#include <new>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/named_status.h"
#include "base/pause_detector.h"
#include "engine/groups/gone_groups.h"
#include "engine/groups/group.h"
#include "engine/groups/notice.h"
#include "engine/operations/scratch.h"

namespace rocecoll {
namespace {

constexpr size_t kEventsPerStep = 64;

}  // namespace

struct Engine::Impl {
  Impl(Transport& t, const EngineOptions& o)
      : transport(t), options(o), scratch(t.memory(), o.scratch_bytes) {}

  Group* find(GroupId id) const {
    const auto it = groups.find(id);
    return it == groups.end() ? nullptr : it->second.get();
  }

  // Runs what may throw: a failed check, or what the standard library or a device's copies throw.
  // After it no group can be trusted.
  template <typename Body>
  bool guarded(Body&& body) {
    try {
      body();
      return true;
    } catch (const std::bad_alloc&) {
      fail_all("out of memory");
    } catch (const std::exception& failure) {
      fail_all(failure.what());
    }
    return false;
  }
  void fail_all(const std::string& cause) {
    for (auto& [id, group] : groups) group->fail(StatusCode::kInternal, cause);
  }

  void dispatch(Instant now, const Event& event);
  void answer_for_gone(const Membership& member, Rank peer);
  void handle_notices();
  bool step(Instant now);
  Instant next_deadline() const;
  Status no_such_group(GroupId id) const;

  Transport& transport;
  const EngineOptions options;
  ScratchPool scratch;
  std::vector<OperationPtr> completed;
  std::array<Event, kEventsPerStep> events;  // of the last step: clearing them takes long
  std::vector<Notice> notices;               // of the current batch of events
  std::map<GroupId, std::unique_ptr<Group>> groups;
  std::unordered_map<Membership, Group*, MembershipHash> by_key;
  GoneGroups gone;
  GroupId last_id = 0;
  size_t removed_failures = 0;  // groups that had failed before they were removed
  bool shut_down = false;
  PauseDetector pauses;  // between steps
};

Engine::Engine(Transport& transport, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(transport, options)) {}

Engine::~Engine() = default;

Result<GroupId> Engine::add_group(GroupSpec spec) {
  if (impl_->shut_down) {
    return NamedStatus(StatusCode::kAborted, "the runtime has been shut down");
  }
  if (Status status = CheckSpec(spec); !status.ok()) return status;
  const Membership key{spec.key, spec.rank};
  if (impl_->by_key.contains(key)) {
    return NamedStatus(StatusCode::kInvalidArgument,
                       "group \"" + spec.name + "\": its key is in use");
  }
  GroupId id = 0;
  const bool added = impl_->guarded([&] {
    auto group = std::make_unique<Group>(impl_->transport, impl_->scratch, impl_->options,
                                         std::move(spec), impl_->completed);
    id = ++impl_->last_id;
    impl_->by_key.emplace(key, group.get());
    impl_->gone.forget_word(key);
    impl_->groups.emplace(id, std::move(group));
  });
  if (!added) return NamedStatus(StatusCode::kInternal, "the group could not be set up");
  return id;
}

Status Engine::Impl::no_such_group(GroupId id) const {
  const std::string* name = gone.find_name(id);
  return NamedStatus(
      StatusCode::kInvalidArgument,
      (name == nullptr ? "the group" : "group " + *name) +
          (shut_down ? " has ended, as the runtime has been shut down: the program ends"
                     : " has been destroyed on this rank"));
}

void Engine::remove_group(GroupId id, const std::string& description) {
  Group* group = impl_->find(id);
  if (group == nullptr) return;
  std::string name = "\"" + group->spec().name + "\"";
  if (!description.empty()) name += " (" + description + ")";
  if (!group->status().ok()) ++impl_->removed_failures;
  impl_->guarded([&] { group->leave(); });
  const Membership member{group->spec().key, group->spec().rank};
  impl_->guarded([&] { impl_->gone.add(id, member, std::move(name), group->parting_word()); });
  impl_->by_key.erase(member);
  impl_->groups.erase(id);
}

void Engine::shut_down() {
  impl_->shut_down = true;
  remove_all_groups();
}

void Engine::remove_all_groups() {
  while (!impl_->groups.empty()) remove_group(impl_->groups.begin()->first);
}

void Engine::set_timeout(GroupId id, Duration timeout) {
  if (Group* group = impl_->find(id)) group->set_timeout(timeout);
}

Status Engine::check(GroupId id, const OperationSpec& spec) const {
  const Group* group = impl_->find(id);
  return group == nullptr ? impl_->no_such_group(id) : group->check(spec);
}

Status Engine::submit(Instant now, GroupId id, OperationPtr operation) {
  Group* group = impl_->find(id);
  if (group == nullptr) return impl_->no_such_group(id);
  Status status;
  if (!impl_->guarded([&] { status = group->submit(now, operation); })) return group->status();
  return status;
}

void Engine::abort(GroupId id, const Status& why) {
  Group* group = impl_->find(id);
  if (group != nullptr) impl_->guarded([&] { group->abort(why); });
}

void Engine::fail_all_groups(const std::string& cause) { impl_->fail_all(cause); }

Status Engine::group_status(GroupId id) const {
  const Group* group = impl_->find(id);
  return group == nullptr ? impl_->no_such_group(id) : group->status();
}

EngineState Engine::state() const {
  EngineState state;
  state.groups = impl_->groups.size();
  for (const auto& [id, group] : impl_->groups) state.failed_groups += group->status().ok() ? 0 : 1;
  state.failures = impl_->removed_failures + state.failed_groups;
  state.shut_down = impl_->shut_down;
  return state;
}

std::vector<GroupState> Engine::group_states(Instant now) const {
  std::vector<GroupState> states;
  for (const auto& [id, group] : impl_->groups) states.push_back(group->state(now));
  return states;
}

std::string Engine::describe_wait(GroupId id, const Operation& operation) const {
  const Group* group = impl_->find(id);
  return group == nullptr ? std::string() : group->describe_wait(operation);
}

std::vector<PeerStats> Engine::peer_stats(Instant now) const {
  std::vector<PeerStats> all;
  for (const auto& [id, group] : impl_->groups) {
    std::ranges::move(group->peer_stats(now), std::back_inserter(all));
  }
  return all;
}

void Engine::Impl::dispatch(Instant now, const Event& event) {
  if (event.kind == Event::Kind::kNotice) {
    if (auto notice = ParseNotice(event.frame)) notices.push_back(std::move(*notice));
    return;
  }
  const bool incoming = event.kind == Event::Kind::kIncoming;
  const LinkId link = incoming ? event.incoming : event.link->id();
  const Membership member{link.group, link.local};
  const auto it = by_key.find(member);
  if (it == by_key.end()) {
    if (incoming) answer_for_gone(member, link.remote);
    return;
  }
  if (incoming) {
    it->second->on_incoming(now, link.remote);
  } else {
    it->second->on_event(now, event);
  }
}

// It asks again if this is lost.
void Engine::Impl::answer_for_gone(const Membership& member, Rank peer) {
  const PartingWord* word = gone.find_word(member);
  if (word == nullptr || peer >= word->addresses.size() || peer == member.rank) return;
  transport.notify(word->addresses[peer], word->notice);
}

void Engine::Impl::handle_notices() {
  for (const Notice& any : notices) {
    std::visit(
        [&](const auto& notice) {
          for (auto& [id, group] : groups) {
            if (group->spec().key == notice.group) group->on_notice(notice);
          }
        },
        any);
  }
  notices.clear();
}

bool Engine::Impl::step(Instant now) {
  if (const Duration pause = pauses.on_call(now); pause > Duration{0}) {
    for (auto& [id, group] : groups) group->on_pause(pause);
  }
  const size_t count = transport.poll(now, events);
  // No group fails before the whole batch is handed out: failing closes links, and later events of
  // the batch may be about them.
  for (size_t i = 0; i < count; ++i) dispatch(now, events[i]);
  handle_notices();
  bool moved = count > 0;
  for (auto& [id, group] : groups) {
    if (group->step(now)) moved = true;
  }
  // The thread that steps the engine may be the one that waited for the operation, and may end the
  // process next: what the operation sent last goes out before that.
  const bool leaving =
      std::ranges::any_of(groups, [](const auto& entry) { return entry.second->has_leaving(); });
  if (leaving || !completed.empty()) transport.transmit(now);
  for (auto& [id, group] : groups) {
    if (leaving && group->complete_left()) moved = true;
  }
  pauses.expect(now, next_deadline());
  return moved;
}

bool Engine::step(Instant now) {
  bool moved = true;
  impl_->guarded([&] { moved = impl_->step(now); });
  return moved;
}

std::vector<OperationPtr> Engine::take_completed() { return std::exchange(impl_->completed, {}); }

bool Engine::has_pending() const {
  return std::any_of(impl_->groups.begin(), impl_->groups.end(),
                     [](const auto& entry) { return entry.second->has_pending(); });
}

Instant Engine::Impl::next_deadline() const {
  Instant next = transport.next_deadline();
  for (const auto& [id, group] : groups) next = std::min(next, group->next_deadline());
  return next;
}

Instant Engine::next_deadline() const { return impl_->next_deadline(); }

}  // namespace rocecoll
