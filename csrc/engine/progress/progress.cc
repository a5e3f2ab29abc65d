// SPDX-License-Identifier: Apache-2.0
// The threads of the engine, their sleep and their steps. What they agree on, and why no wake-up is
// lost, is hand_over.h; the model in its test goes through the calls in the order of this file.
#include "engine/progress/progress.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/cpu_relax.h"
#include "base/monotonic_clock.h"
#include "base/named_status.h"
#include "engine/groups/failure_text.h"
#include "engine/progress/disposer.h"
#include "engine/progress/engine_lock.h"
#include "engine/progress/hand_over.h"
#include "engine/progress/idle_wait.h"
#include "engine/progress/waker.h"

namespace rocecoll {
namespace {

Duration Until(Instant deadline, Instant now) {
  return deadline == kNever ? Duration::max() : std::max(deadline - now, Duration{0});
}

}  // namespace

struct Progress::Impl {
  Impl(std::unique_ptr<Transport> t, const EngineOptions& engine_options, const ProgressOptions& o,
       Waker of_driver, Waker of_thread)
      : transport(std::move(t)),
        engine(*transport, engine_options),
        options(o),
        idle_wait(o.spin_time, o.yield_time, o.patient),
        handle(transport->wait_handle()),
        address(transport->address()),
        driver_waker(std::move(of_driver)),
        thread_waker(std::move(of_thread)) {}

  void run_thread();
  void serve();
  void listen(Owners& owners);
  void fail_all(const std::exception& failure);
  bool drive_until(const std::function<bool()>& done, Patience& patience);
  bool wait_for_role(const std::function<bool()>& done, Patience& patience);
  void drive(const std::function<bool()>& done, Patience& patience, Owners& owners);
  void sleep_as_driver(const std::function<bool()>& done, Patience& patience, Owners& owners);
  void give_up_role();
  void wake(HandOver::Wakes whom);
  void step_aside(EngineLock::Outcome outcome);
  void finish(std::vector<OperationPtr>& completed, Owners& owners);
  void let_go(Owners& owners);
  void shut_down_groups(Duration limit);
  void let_links_close();
  void look(const std::function<void(Engine&)>& call);
  // Returns its answer.
  template <typename Question>
  auto ask(const Question& question) {
    std::invoke_result_t<Question, Engine&> answer;
    look([&](Engine& e) { answer = question(e); });
    return answer;
  }
  void change(const std::function<void(Engine&)>& call);
  void start(const std::function<void(Engine&)>& call);

  const std::unique_ptr<Transport> transport;
  Disposer disposer;
  EngineLock engine;
  const ProgressOptions options;
  IdleWait idle_wait;  // the driver's
  const WaitHandle handle;
  const Address address;

  HandOver hand_over;
  std::mutex line_mutex;  // from a look at the role and at done to the sleep in line
  std::condition_variable line_moves;
  Waker driver_waker;
  Waker thread_waker;
  std::thread thread;
  std::atomic<bool> close_is_late = false;
};

// The runtime that this thread drives, for a callback that waits on it again; and the one whose
// background thread this is.
static thread_local const void* driving_here = nullptr;
static thread_local const void* serving_here = nullptr;

void Progress::Impl::wake(HandOver::Wakes whom) {
  if (whom.waiters) {
    {
      const std::lock_guard lock(line_mutex);
    }  // one of them between its look and its sleep
    line_moves.notify_all();
  }
  if (whom.driver) driver_waker.wake();
  if (whom.thread) thread_waker.wake();
  if (whom.thread_soon) thread_waker.wake_in(HandOver::kShortPark);
}

// Hands completed operations back, with no lock held, and adds what they kept alive to `owners`.
// All become done before any callback runs, as a callback may wait for another of them.
void Progress::Impl::finish(std::vector<OperationPtr>& completed, Owners& owners) {
  if (completed.empty()) return;
  for (const OperationPtr& operation : completed) operation->set_done();
  wake(hand_over.completed());
  for (OperationPtr& operation : completed) {
    operation->run_callback();
    if (auto owner = operation->take_owner()) owners.push_back(std::move(owner));
    operation.reset();
  }
  completed.clear();
}

void Progress::Impl::let_go(Owners& owners) {
  if (owners.empty()) return;
  if (serving_here == this || driving_here == this) disposer.let_go(owners);
  owners.clear();
}

// After a step by a thread that does not go on driving.
void Progress::Impl::step_aside(EngineLock::Outcome outcome) {
  wake(hand_over.stepped(outcome.next_deadline));
  Owners owners;
  finish(outcome.completed, owners);
  let_go(owners);
}

void Progress::Impl::sleep_as_driver(const std::function<bool()>& done, Patience& patience,
                                     Owners& owners) {
  EngineLock::Outcome outcome = engine.step(&hand_over.driver_mark());
  finish(outcome.completed, owners);
  if (!outcome.moved) {
    hand_over.about_to_sleep();
    if (!done()) {
      let_go(owners);
      const Instant until = patience.nap_until(outcome.now, outcome.next_deadline);
      driver_waker.sleep(handle, Until(until, outcome.now));
    }
  }
  hand_over.driver_mark().set_awake();
}

// What the last completed operations kept alive is left to the caller, which releases it without a
// hand-over once it has given up the role.
void Progress::Impl::drive(const std::function<bool()>& done, Patience& patience, Owners& owners) {
  idle_wait.begin();
  while (!done()) {
    let_go(owners);
    EngineLock::Outcome outcome = engine.step();
    finish(outcome.completed, owners);
    hand_over.drove(outcome.now);
    if (!patience.lasts(outcome.now)) return;
    if (outcome.moved) {
      idle_wait.moved(outcome.now);
      continue;
    }
    switch (idle_wait.idle(outcome.now)) {
      case IdleWait::Move::kSpin:
        CpuRelax();
        break;
      case IdleWait::Move::kYield:
        sched_yield();
        break;
      case IdleWait::Move::kSleep:
        if (!done()) sleep_as_driver(done, patience, owners);
        break;
    }
  }
}

void Progress::Impl::give_up_role() {
  hand_over.driver_mark().set_awake();
  wake(hand_over.give_up());
  EngineLock::Outcome outcome = engine.with([](Engine&) {});
  wake(hand_over.left(outcome.pending, outcome.next_deadline));
  step_aside(std::move(outcome));
}

// Returns whether the role is ours: not if done() came first, or the time passed.
bool Progress::Impl::wait_for_role(const std::function<bool()>& done, Patience& patience) {
  if (done()) return false;
  if (hand_over.take()) return true;
  std::unique_lock lock(line_mutex);
  hand_over.line_up();
  bool ours = false;
  while (!done() && !(ours = hand_over.take())) {
    const Instant now = MonotonicNow();
    if (!patience.lasts(now)) break;
    line_moves.wait_for(lock, patience.nap(now));
  }
  hand_over.leave_line();
  return ours;
}

// True once done() is, false after the time. done() becomes true on some thread that then wakes us.
bool Progress::Impl::drive_until(const std::function<bool()>& done, Patience& patience) {
  Owners owners;
  if (driving_here == this) {  // a callback of an operation that this thread has finished
    drive(done, patience, owners);
    let_go(owners);
    return done();
  }
  if (!wait_for_role(done, patience)) return done();
  struct Role {
    explicit Role(Impl& i) : impl(i) { driving_here = &impl; }
    ~Role() {
      driving_here = nullptr;
      impl.give_up_role();
    }
    Impl& impl;
  } const role(*this);
  drive(done, patience, owners);
  return done();
}

void Progress::Impl::listen(Owners& owners) {
  EngineLock::Outcome outcome = engine.step(&hand_over.thread_mark());
  wake(hand_over.listened(outcome.pending));
  finish(outcome.completed, owners);
  let_go(owners);
  if (!outcome.moved) thread_waker.sleep(handle, Until(outcome.next_deadline, outcome.now));
  hand_over.thread_mark().set_awake();
}

void Progress::Impl::serve() {
  Owners owners;
  while (true) {
    switch (hand_over.duty(MonotonicNow())) {
      case HandOver::Duty::kListen:
        listen(owners);
        break;
      case HandOver::Duty::kParkShort:
        thread_waker.sleep(WaitHandle{}, hand_over.park_time());
        break;
      case HandOver::Duty::kParkLong:
        thread_waker.sleep(WaitHandle{}, Duration::max());
        break;
      case HandOver::Duty::kStop:
        return;
    }
  }
}

// Nothing leaves the thread. Without it, waiters still drive.
void Progress::Impl::run_thread() {
  serving_here = this;
  try {
    serve();
  } catch (const std::exception& failure) {
    fail_all(failure);
  }
}

void Progress::Impl::fail_all(const std::exception& failure) {
  look([&](Engine& e) { e.fail_all_groups(failure.what()); });
}

void Progress::Impl::look(const std::function<void(Engine&)>& call) {
  EngineLock::Outcome outcome = engine.with(call);
  wake(hand_over.left(false, outcome.next_deadline));  // the caller answers for what is pending
  step_aside(std::move(outcome));
}

// What the call starts (a link's last frames, an abort notice) needs steps soon.
void Progress::Impl::change(const std::function<void(Engine&)>& call) {
  look(call);
  wake(hand_over.call());
}

// The call lets operations send something that no caller waits for yet.
void Progress::Impl::start(const std::function<void(Engine&)>& call) {
  EngineLock::Outcome outcome = engine.with(call);
  wake(hand_over.left(outcome.pending, outcome.next_deadline));
  step_aside(std::move(outcome));
}

Result<std::unique_ptr<Progress>> Progress::Start(std::unique_ptr<Transport> transport,
                                                  const EngineOptions& engine,
                                                  const ProgressOptions& options) {
  auto of_driver = Waker::Open();
  if (!of_driver.ok()) return of_driver.status();
  auto of_thread = Waker::Open();
  if (!of_thread.ok()) return of_thread.status();
  auto impl = std::make_unique<Impl>(std::move(transport), engine, options, of_driver.take(),
                                     of_thread.take());
  impl->thread = std::thread([of = impl.get()] { of->run_thread(); });
  return std::unique_ptr<Progress>(new Progress(std::move(impl)));
}

Progress::Progress(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Progress::~Progress() {
  impl_->shut_down_groups(impl_->options.final_linger);
  impl_->wake(impl_->hand_over.stop());
  impl_->thread.join();
}

Address Progress::address() const { return impl_->address; }
Result<GroupId> Progress::add_group(GroupSpec spec) {
  Result<GroupId> added = GroupId{0};
  impl_->change([&](Engine& engine) { added = engine.add_group(std::move(spec)); });
  return added;
}

// The process may end right after this, in a way that no code of ours notices.
void Progress::remove_group(GroupId group, const std::string& description) {
  impl_->change([&](Engine& engine) { engine.remove_group(group, description); });
  impl_->let_links_close();
}

void Progress::set_timeout(GroupId group, Duration timeout) {
  impl_->look([&](Engine& engine) { engine.set_timeout(group, timeout); });
}

Status Progress::group_status(GroupId group) {
  return impl_->ask([&](Engine& engine) { return engine.group_status(group); });
}

EngineState Progress::state() {
  return impl_->ask([](Engine& engine) { return engine.state(); });
}

std::vector<GroupState> Progress::group_states() {
  return impl_->ask([](Engine& engine) { return engine.group_states(MonotonicNow()); });
}

std::string Progress::describe_wait(GroupId group, const Operation& operation) {
  return impl_->ask([&](Engine& engine) { return engine.describe_wait(group, operation); });
}

void Progress::abort(GroupId group, const Status& why) {
  impl_->change([&](Engine& engine) { engine.abort(group, why); });
}

TransportStats Progress::stats() {
  return impl_->ask([this](Engine&) { return impl_->transport->stats(); });
}

std::vector<PeerStats> Progress::peer_stats() {
  return impl_->ask([](Engine& engine) { return engine.peer_stats(MonotonicNow()); });
}

Status Progress::submit(GroupId group, const OperationPtr& operation, Next next) {
  Status refused;
  EngineLock::Outcome outcome = impl_->engine.submit(group, operation, refused);
  const bool waits =
      next == Next::kWaits || (next == Next::kLikelyWaits && impl_->hand_over.looks_soon());
  const bool left = !waits && outcome.pending;
  const Instant next_deadline = outcome.next_deadline;
  const Instant now = outcome.now;
  // What is pending after our own step completes in a later one, by a thread that keeps the
  // deadlines.
  const bool ours = waits && !outcome.mailed && refused.ok();
  impl_->step_aside(std::move(outcome));
  const bool will_drive = ours && !operation->done();
  if (ours) impl_->hand_over.met(now);
  if (!will_drive) impl_->wake(impl_->hand_over.left(left, next_deadline));
  return refused;
}

Status Progress::submit_all(GroupId group, const std::vector<OperationPtr>& operations,
                            size_t& accepted) {
  Status refused;
  accepted = 0;
  impl_->start([&](Engine& engine) {
    for (const OperationPtr& operation : operations) {
      refused = engine.check(group, operation->spec());
      if (!refused.ok()) return;
    }
    const Instant now = MonotonicNow();
    for (const OperationPtr& operation : operations) {
      refused = engine.submit(now, group, operation);
      if (!refused.ok()) break;
      ++accepted;
    }
    engine.step(now);
  });
  return refused;
}

void Progress::open(Gate& gate) {
  impl_->start([&](Engine& engine) {
    gate.open();
    engine.step(MonotonicNow());
  });
}

Status Progress::wait(const OperationPtr& operation, Duration timeout, const Look& look) {
  if (operation->done()) return operation->status();
  Patience patience(MonotonicNow(), timeout);
  return wait(operation, patience, look);
}

Status Progress::wait(const OperationPtr& operation, Patience& patience, const Look& look) {
  const auto done = [&] { return operation->done(); };
  const bool looks = look && driving_here != impl_.get();
  while (!done()) {
    Patience turn = patience.turn(kLookInterval);
    try {
      impl_->drive_until(done, looks ? turn : patience);
    } catch (const std::exception& failure) {
      impl_->fail_all(failure);
      return Status(StatusCode::kInternal, failure.what());
    }
    if (done()) break;
    if (!looks || !patience.lasts(MonotonicNow())) {
      return NamedStatus(StatusCode::kTimeout, "the operation is not complete after " +
                                                   DescribeDuration(patience.timeout()) +
                                                   "; it goes on");
    }
    look();
  }
  return operation->status();
}

void Progress::Impl::shut_down_groups(Duration limit) {
  change([](Engine& e) { e.shut_down(); });
  Patience patience(MonotonicNow(), limit);
  drive_until([this] { return !engine.lingering(); }, patience);
}

// Once a link has taken too long to close, later ones are not waited for either, until all have
// closed: they may wait for the same peers.
void Progress::Impl::let_links_close() {
  close_is_late = close_is_late && engine.lingering();
  if (close_is_late || !engine.lingering() || serving_here == this) return;
  Patience patience(MonotonicNow(), options.leave_linger);
  close_is_late = !drive_until([this] { return !engine.lingering(); }, patience);
}

void Progress::shutdown(Duration limit) {
  impl_->shut_down_groups(limit);
  impl_->disposer.drain(limit);
}

void Progress::shutdown() { shutdown(impl_->options.final_linger); }

}  // namespace rocecoll
