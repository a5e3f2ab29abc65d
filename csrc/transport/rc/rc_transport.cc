// SPDX-License-Identifier: Apache-2.0
#include "transport/rc/rc_transport.h"

#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace rocecoll {
namespace {

// Looks at the control path and at the device's health are system calls, each worth several looks
// at the completion queue. While queue pairs carry all links, neither is on any message's way.
constexpr Duration kControlInterval = std::chrono::milliseconds(1);
constexpr Duration kHealthInterval = std::chrono::milliseconds(1);
// Looks at the completion queue before a failed queue pair is destroyed with requests outstanding.
constexpr int kDrainLooks = 20000;

}  // namespace

RcTransport::RcTransport(std::unique_ptr<Transport> control, std::unique_ptr<RdmaDevice> device,
                         const RcOptions& options, std::string no_device)
    : control_(std::move(control)),
      device_(std::move(device)),
      context_(options, control_->limits().max_frame_bytes) {
  ROCECOLL_CHECK(options.queue_pairs_per_connection >= 1 &&
                 options.queue_pairs_per_connection <= kMaxQueuePairsPerLink &&
                 options.credits >= 1 && options.credits < UINT16_MAX);
  if (device_ != nullptr) {
    memory_ = std::make_unique<RegisteredMemory>(*device_);
    receives_ = std::make_unique<ReceivePool>(*device_, memory_->frames());
    context_.device = device_.get();
    context_.memory = memory_.get();
    context_.receives = receives_.get();
  } else {
    context_.unusable = no_device.empty() ? "no RDMA device" : std::move(no_device);
  }
  context_.drain = [this](RcLink& link) { drain(link); };
  make_wait_handle();
}

RcTransport::~RcTransport() { links_.clear(); }

// One descriptor that is readable when either path has something.
void RcTransport::make_wait_handle() {
  wait_handle_ = control_->wait_handle();
  const WaitHandle device = device_ == nullptr ? WaitHandle{} : device_->wait_handle();
  if (device.fd < 0 || wait_handle_.fd < 0) return;
  epoll_fd_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  ROCECOLL_CHECK(epoll_fd_.valid());
  for (const int fd : {wait_handle_.fd, device.fd}) {
    epoll_event event{};
    event.events = EPOLLIN;
    ROCECOLL_CHECK(::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0);
  }
  wait_handle_.fd = epoll_fd_;
}

TransportLimits RcTransport::limits() const {
  TransportLimits limits;
  limits.max_frame_bytes = RcStream::kMaxFrameBytes;
  limits.preferred_eager_bytes = RcStream::kMaxFrameBytes;
  return limits;
}

MemoryDomain& RcTransport::memory() { return memory_ == nullptr ? control_->memory() : *memory_; }

TransportStats RcTransport::stats() const { return control_->stats() + context_.stats; }

Result<Link*> RcTransport::open(const LinkId& id, const Address& peer, Duration connect_timeout,
                                Instant now) {
  context_.now = std::max(context_.now, now);
  const Result<Link*> control = control_->open(id, peer, connect_timeout, now);
  if (!control.ok()) return control.status();
  auto link = std::make_unique<RcLink>(context_, *control.value(), peer);
  Link* opened = link.get();
  links_.emplace(control.value(), std::move(link));
  return opened;
}

size_t RcTransport::poll(Instant now, std::span<Event> events) {
  context_.now = std::max(context_.now, now);
  if (const Duration pause = pauses_.on_call(now); pause > Duration{0}) {
    for (RcLink* link : context_.with_timer) link->on_pause(pause);
  }
  give_back_lent();
  context_.dirty.insert(context_.dirty.end(), blocked_.begin(), blocked_.end());
  blocked_.clear();
  pump();
  if (context_.events.empty()) {
    context_.held.clear();
    // What has ended a sleep, if it was not a completion.
    if (poll_device() == 0 && std::exchange(armed_, false)) control_due_ = health_due_ = {};
    poll_control();
  }
  check_health();
  run_timers();
  pump();
  reap();
  const size_t count = take_events(events);
  // Without a timer there is none to stand still.
  pauses_.expect(context_.now, context_.with_timer.empty() ? kNever : next_deadline());
  return count;
}

// What the last poll() handed out is over.
void RcTransport::give_back_lent() {
  for (const RcPendingEvent& lent : lent_) {
    receives_->repost(*lent.receive_id);
    const auto link = context_.by_queue_pair.find(lent.queue_pair);
    if (link != context_.by_queue_pair.end()) {
      link->second->on_reposted(lent.queue_pair);
    }
  }
  lent_.clear();
}

void RcTransport::poll_control() {
  if (context_.links_off_roce == 0 && context_.now < control_due_) return;
  control_due_ = context_.now + kControlInterval;
  std::array<Event, kBatch> events;
  const size_t count = control_->poll(context_.now, events);
  for (const Event& event : std::span(events).first(count)) {
    if (event.link == nullptr) {
      context_.events.push_back({event, std::nullopt, 0});
      continue;
    }
    const auto found = links_.find(event.link);
    ROCECOLL_CHECK(found != links_.end());
    // A link that closed during this batch has let its control link go.
    if (!found->second->finished()) found->second->on_control(event);
  }
}

size_t RcTransport::poll_device() {
  if (device_ == nullptr) return 0;
  std::array<WorkCompletion, kBatch> completions;
  const size_t count = device_->poll(completions);
  for (const WorkCompletion& completion : std::span(completions).first(count)) {
    dispatch(completion);
  }
  return count;
}

void RcTransport::dispatch(const WorkCompletion& completion) {
  const auto found = context_.by_queue_pair.find(completion.queue_pair);
  if (found != context_.by_queue_pair.end()) {
    found->second->on_completion(completion);
  } else if (completion.kind != WorkCompletion::Kind::kSend) {
    receives_->repost(completion.id);  // of a queue pair that is gone
  }
}

void RcTransport::check_health() {
  if (device_ == nullptr || context_.now < health_due_) return;
  health_due_ = context_.now + kHealthInterval;
  const Status health = device_->health();
  const bool was_usable = context_.usable();
  context_.unusable = health.ok() ? "" : health.message();
  if (was_usable == health.ok()) return;
  Log(health.ok() ? Severity::kInfo : Severity::kWarning,
      device_->description() + (health.ok() ? " works again" : ": " + health.message()));
  if (health.ok()) return;
  for (const auto& [control, link] : links_) link->on_device_down();
}

void RcTransport::run_timers() {
  std::vector<RcLink*> due;
  for (RcLink* link : context_.with_timer) {
    if (link->deadline() <= context_.now) due.push_back(link);
  }
  for (RcLink* link : due) link->on_timer();
}

void RcTransport::pump() {
  in_turn_.swap(context_.dirty);
  for (RcLink* link : in_turn_) {
    link->dirty = false;
    if (link->pump()) continue;
    link->dirty = true;
    blocked_.push_back(link);
  }
  in_turn_.clear();
}

void RcTransport::reap() {
  if (std::exchange(context_.finished_links, 0) == 0) return;
  std::erase_if(links_, [this](const auto& entry) {
    RcLink& link = *entry.second;
    if (!link.finished()) return false;
    if (link.dirty) {
      std::erase(context_.dirty, &link);
      std::erase(blocked_, &link);
    }
    return true;
  });
}

// Flushing needs the kernel, where one works for the device, to have a turn.
void RcTransport::drain(RcLink& link) {
  for (int look = 0; look < kDrainLooks && !link.drained(); ++look) {
    if (poll_device() == 0) ::sched_yield();
  }
  link.destroy_queue_pairs();
}

size_t RcTransport::take_events(std::span<Event> events) {
  size_t count = 0;
  while (count < events.size() && !context_.events.empty()) {
    RcPendingEvent& pending = context_.events.front();
    events[count++] = pending.event;
    if (pending.event.kind == Event::Kind::kDown) {
      static_cast<RcLink*>(pending.event.link)->set_status();
    }
    if (pending.receive_id) lent_.push_back(pending);
    context_.events.pop_front();
  }
  return count;
}

bool RcTransport::lingering() const {
  return control_->lingering() ||
         std::ranges::any_of(links_, [](const auto& entry) { return entry.second->closing(); });
}

Instant RcTransport::next_deadline() const {
  if (!context_.events.empty() || !context_.dirty.empty() || !lent_.empty()) return context_.now;
  Instant next = control_->next_deadline();
  for (const RcLink* link : context_.with_timer) next = std::min(next, link->deadline());
  return next;
}

bool RcTransport::arm() {
  armed_ = true;
  return control_->arm() && (device_ == nullptr || device_->arm());
}

}  // namespace rocecoll
