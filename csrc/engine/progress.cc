// SPDX-License-Identifier: Apache-2.0
// Two kinds of thread step the engine, always under EngineLock:
//
// - A *driver*: one thread in wait() or shutdown(), holder of the role `user_drives`. It spins,
//   yields, then sleeps on the transport's descriptor and driver_waker. Other waiters sleep on a
//   condition variable until their operation is done or the role is free.
// - The background thread. It *listens* (sleeps on the descriptor and thread_waker until the
//   engine's next deadline) while nobody drives, and is *parked* (sleeps on thread_waker alone)
//   while somebody drives or did so a moment ago: one packet then wakes one thread. A short park
//   ends by itself; a long one, when the same thread has driven for all of a short one, is ended by
//   the driver that leaves.
//
// Why no wake-up is lost:
// 1. Deadlines. A sleeper's mark is written under the lock, with the deadline at that instant.
//    Whoever steps the engine later compares the new deadline with the mark, under or after the
//    same lock, and wakes the sleeper when it is earlier. The driver wakes the thread only when it
//    leaves: until then it keeps the deadlines itself. A parked thread looks by itself soon.
// 2. Completion. The finisher sets done, then looks for sleepers; the sleeper announces itself (its
//    mark, or `waiters`), then looks at done; both pass meet() between. One of them passes it
//    second and sees what the other wrote before.
// 3. Work left behind. Whoever gives up the role, or submits without waiting, looks under the lock
//    whether operations are pending *after* it has given up the role, and then calls the thread. If
//    it sees the role taken again, the new holder will do the same later.
// Neither kind waits for anything else while it is relied upon: what completed operations kept
// alive is let go by a thread that is neither, or by a driver once it has given up the role
// (let_go). Wakers are sticky, so a wake() between a decision to sleep and the sleep is not lost
// either.
#include "engine/progress.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "base/monotonic_clock.h"
#include "engine/disposer.h"
#include "engine/engine_lock.h"
#include "engine/failure_text.h"
#include "engine/waker.h"

namespace rocecoll {
namespace {

// A thread that has just waited will likely wait again: a training step calls many operations.
constexpr Duration kRecently = std::chrono::milliseconds(1);
// A timer of a connection may be late by as much once a driver has left: a lost tail waits then.
constexpr Duration kShortPark = std::chrono::milliseconds(2);

void CpuRelax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

Duration Until(Instant deadline, Instant now) {
  return deadline == kNever ? Duration::max() : std::max(deadline - now, Duration{0});
}

}  // namespace

struct Progress::Impl {
  Impl(std::unique_ptr<Transport> t, const EngineOptions& engine_options, const ProgressOptions& o)
      : transport(std::move(t)),
        engine(*transport, engine_options),
        options(o),
        handle(transport->wait_handle()),
        address(transport->address()) {}

  void run_thread();
  void serve();
  void fail_all(const std::exception& failure);
  // Orders what two threads write before and read after it: a read-modify-write of one variable.
  void meet() { meetings.fetch_add(1, std::memory_order_acq_rel); }
  bool drive_until(const std::function<bool()>& done, Patience& patience);
  bool wait_for_role(const std::function<bool()>& done, Patience& patience);
  void drive(const std::function<bool()>& done, Patience& patience, Owners& owners);
  void sleep_as_driver(const std::function<bool()>& done, Patience& patience, Owners& owners);
  void give_up_role();
  void call_thread();
  void step_aside(EngineLock::Outcome outcome);
  void finish(std::vector<OperationPtr>& completed, Owners& owners);
  void let_go(Owners& owners);
  void shut_down_groups(Duration limit);
  bool park_needed(bool on_duty) const;
  void park(bool& long_next);
  void look(const std::function<void(Engine&)>& call);
  void change(const std::function<void(Engine&)>& call);

  const std::unique_ptr<Transport> transport;
  Disposer disposer;
  EngineLock engine;
  const ProgressOptions options;
  const WaitHandle handle;
  const Address address;

  std::mutex role_mutex;
  std::condition_variable role_changed;
  std::atomic<bool> user_drives{false};  // written under role_mutex
  std::atomic<int> waiters{0};           // written under role_mutex
  std::atomic<uint64_t> drives{0};       // how often the role was taken
  std::atomic<uint32_t> meetings{0};
  std::atomic<int64_t> last_drive_ns{INT64_MIN / 2};
  SleepMark driver_mark;
  Waker driver_waker;

  SleepMark thread_mark;
  Waker thread_waker;
  std::atomic<bool> thread_called{false};
  std::atomic<bool> thread_parked_long{false};
  std::atomic<bool> stopping{false};
  std::thread thread;
};

// The runtime this thread drives, for a callback that waits on it again; or is the background of.
static thread_local const void* driving_here = nullptr;
static thread_local const void* serving_here = nullptr;

// Hands completed operations back, with no lock held, and adds what they kept alive to `owners`.
// All become done before any callback runs, as a callback may wait for another of them.
void Progress::Impl::finish(std::vector<OperationPtr>& completed, Owners& owners) {
  if (completed.empty()) return;
  for (const OperationPtr& operation : completed) {
    operation->done_.store(true, std::memory_order_release);
  }
  meet();
  if (waiters.load() > 0) {
    {
      const std::lock_guard lock(role_mutex);
    }  // a waiter between its look and its sleep
    role_changed.notify_all();
  }
  if (driver_mark.asleep()) driver_waker.wake();
  for (OperationPtr& operation : completed) {
    if (auto callback = std::exchange(operation->on_complete_, nullptr)) callback(*operation);
    if (operation->owner_ != nullptr) owners.push_back(std::move(operation->owner_));
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
  if (driver_mark.later_than(outcome.next_deadline)) driver_waker.wake();
  Owners owners;
  finish(outcome.completed, owners);
  let_go(owners);
}

// Sticky: one call is enough until the thread has seen it.
void Progress::Impl::call_thread() {
  if (!user_drives.load() && !thread_called.exchange(true)) thread_waker.wake();
}

void Progress::Impl::sleep_as_driver(const std::function<bool()>& done, Patience& patience,
                                     Owners& owners) {
  EngineLock::Outcome outcome = engine.step(&driver_mark);
  finish(outcome.completed, owners);
  if (!outcome.moved) {
    meet();
    if (!done()) {
      let_go(owners);
      const Instant until = patience.nap_until(outcome.now, outcome.next_deadline);
      driver_waker.sleep(handle, Until(until, outcome.now));
    }
  }
  driver_mark.set_awake();
}

// What was kept by operations that completed last is left to the caller, to be let go without a
// hand-over once it has given up the role.
void Progress::Impl::drive(const std::function<bool()>& done, Patience& patience, Owners& owners) {
  Instant idle_since{};
  bool was_idle = false;
  while (!done()) {
    let_go(owners);
    EngineLock::Outcome outcome = engine.step();
    finish(outcome.completed, owners);
    last_drive_ns.store(outcome.now.time_since_epoch().count());
    if (!patience.lasts(outcome.now)) return;
    if (outcome.moved || !was_idle) idle_since = outcome.now;
    was_idle = !outcome.moved;
    if (outcome.moved) continue;
    const Duration idle = outcome.now - idle_since;
    if (idle < options.spin_time) {
      CpuRelax();
    } else if (idle < options.spin_time + options.yield_time) {
      sched_yield();
    } else if (!done()) {
      sleep_as_driver(done, patience, owners);
    }
  }
}

void Progress::Impl::give_up_role() {
  {
    const std::lock_guard lock(role_mutex);
    user_drives.store(false);
  }
  if (waiters.load() > 0) role_changed.notify_all();
  meet();
  if (thread_parked_long.load()) thread_waker.wake();
  EngineLock::Outcome outcome = engine.with([](Engine&) {});
  if (outcome.pending) {
    call_thread();
  } else if (thread_mark.later_than(outcome.next_deadline)) {
    thread_waker.wake();
  }
  step_aside(std::move(outcome));
}

// Returns whether the role is ours: not if done() came first, or the time passed.
bool Progress::Impl::wait_for_role(const std::function<bool()>& done, Patience& patience) {
  std::unique_lock lock(role_mutex);
  waiters.fetch_add(1);
  meet();
  if (!done() && user_drives.load()) {
    Instant now = MonotonicNow();
    for (; !done() && user_drives.load() && patience.lasts(now); now = MonotonicNow()) {
      role_changed.wait_for(lock, patience.nap(now));
    }
  }
  waiters.fetch_sub(1);
  if (done() || user_drives.load()) return false;
  user_drives.store(true);
  drives.fetch_add(1);
  return true;
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
      impl.driver_mark.set_awake();
      impl.give_up_role();
    }
    Impl& impl;
  } const role(*this);
  drive(done, patience, owners);
  return done();
}

bool Progress::Impl::park_needed(bool on_duty) const {
  if (user_drives.load()) return true;
  if (on_duty) return false;
  const Instant last{Duration(last_drive_ns.load())};
  return MonotonicNow() < last + kRecently;
}

void Progress::Impl::park(bool& long_next) {
  const uint64_t drive = drives.load();
  if (long_next) {
    thread_parked_long.store(true);
    meet();
    // A driver that leaves after this look sees that we are parked; one that left before is gone.
    if (user_drives.load()) thread_waker.sleep(WaitHandle{}, Duration::max());
    thread_parked_long.store(false);
  } else {
    thread_waker.sleep(WaitHandle{}, kShortPark);
  }
  long_next = user_drives.load() && drives.load() == drive;
}

void Progress::Impl::serve() {
  bool on_duty = false;    // called since the last time that nothing was pending
  bool long_park = false;  // the same thread has driven for a whole short park
  Owners owners;
  while (!stopping.load()) {
    if (thread_called.exchange(false)) on_duty = true;
    if (park_needed(on_duty)) {
      // A driver calls again if it leaves work behind.
      if (user_drives.load()) on_duty = false;
      park(long_park);
      continue;
    }
    long_park = false;
    EngineLock::Outcome outcome = engine.step(&thread_mark);
    if (driver_mark.asleep()) driver_waker.wake();  // it started to drive while we stepped
    finish(outcome.completed, owners);
    let_go(owners);
    if (!outcome.pending) on_duty = false;
    if (!outcome.moved) thread_waker.sleep(handle, Until(outcome.next_deadline, outcome.now));
    thread_mark.set_awake();
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
  step_aside(engine.with(call));
}

// What the call starts (a link's last frames, an abort notice) needs steps soon.
void Progress::Impl::change(const std::function<void(Engine&)>& call) {
  look(call);
  call_thread();
}

Progress::Progress(std::unique_ptr<Transport> transport, const EngineOptions& engine,
                   const ProgressOptions& options)
    : impl_(std::make_unique<Impl>(std::move(transport), engine, options)) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->run_thread(); });
}

Progress::~Progress() {
  impl_->shut_down_groups(impl_->options.final_linger);
  impl_->stopping.store(true);
  impl_->thread_waker.wake();
  impl_->thread.join();
}

Address Progress::address() const { return impl_->address; }
Result<GroupId> Progress::add_group(GroupSpec spec) {
  Result<GroupId> added = GroupId{0};
  impl_->change([&](Engine& engine) { added = engine.add_group(std::move(spec)); });
  return added;
}

void Progress::remove_group(GroupId group) {
  impl_->change([&](Engine& engine) { engine.remove_group(group); });
}

void Progress::set_timeout(GroupId group, Duration timeout) {
  impl_->look([&](Engine& engine) { engine.set_timeout(group, timeout); });
}

Status Progress::group_status(GroupId group) {
  Status status;
  impl_->look([&](Engine& engine) { status = engine.group_status(group); });
  return status;
}

EngineState Progress::state() {
  EngineState state;
  impl_->look([&](Engine& engine) { state = engine.state(); });
  return state;
}

void Progress::abort(GroupId group, const Status& why) {
  impl_->change([&](Engine& engine) { engine.abort(group, why); });
}

TransportStats Progress::stats() {
  TransportStats stats;
  impl_->look([&](Engine& engine) { stats = engine.transport().stats(); });
  return stats;
}

Status Progress::submit(GroupId group, const OperationPtr& operation, bool asynchronous) {
  Status refused;
  EngineLock::Outcome outcome = impl_->engine.submit(group, operation, refused);
  const bool pending = outcome.pending;
  impl_->step_aside(std::move(outcome));
  if (asynchronous && pending) impl_->call_thread();
  return refused;
}

Status Progress::submit_all(GroupId group, const std::vector<OperationPtr>& operations,
                            size_t& accepted) {
  Status refused;
  accepted = 0;
  EngineLock::Outcome outcome = impl_->engine.with([&](Engine& engine) {
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
  const bool pending = outcome.pending;
  impl_->step_aside(std::move(outcome));
  if (pending) impl_->call_thread();
  return refused;
}

Status Progress::wait(const OperationPtr& operation, Duration timeout) {
  if (operation->done()) return operation->status();
  Patience patience(MonotonicNow(), timeout);
  return wait(operation, patience);
}

Status Progress::wait(const OperationPtr& operation, Patience& patience) {
  if (!operation->done()) {
    try {
      if (!impl_->drive_until([&] { return operation->done(); }, patience)) {
        return Status(StatusCode::kTimeout, "rocecoll: the operation is not complete after " +
                                                DescribeDuration(patience.timeout()) +
                                                "; it goes on");
      }
    } catch (const std::exception& failure) {
      impl_->fail_all(failure);
      return Status(StatusCode::kInternal, failure.what());
    }
  }
  return operation->status();
}

void Progress::Impl::shut_down_groups(Duration limit) {
  change([](Engine& e) { e.shut_down(); });
  Patience patience(MonotonicNow(), limit);
  drive_until([this] { return !engine.lingering(); }, patience);
}

void Progress::shutdown(Duration limit) {
  impl_->shut_down_groups(limit);
  impl_->disposer.drain(limit);
}

void Progress::shutdown() { shutdown(impl_->options.final_linger); }

}  // namespace rocecoll
