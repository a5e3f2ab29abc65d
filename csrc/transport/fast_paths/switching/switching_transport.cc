// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/switching/switching_transport.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace rocecoll {
namespace {

// Polling the control path and asking for the device's health are system calls, each of which costs
// as much as several polls of the device. While the fast path carries all links, no message depends
// on either.
constexpr Duration kControlInterval = std::chrono::milliseconds(1);
constexpr Duration kHealthInterval = std::chrono::milliseconds(1);
// Both are put off while links send or the device brings something, for up to this many polls: a
// program that polls once after computing finds both due, and what it waits for at hand.
constexpr int kMostPutOff = 16;
// Polls of the device before a failed path is destroyed with something outstanding.
constexpr int kDrainLooks = 20000;

TransportLimits Least(const TransportLimits& a, const TransportLimits& b) {
  TransportLimits least;
  least.max_frame_bytes = std::min(a.max_frame_bytes, b.max_frame_bytes);
  least.preferred_eager_bytes = std::min(a.preferred_eager_bytes, b.preferred_eager_bytes);
  least.eager_pieces = std::min(a.eager_pieces, b.eager_pieces);
  least.max_write_bytes = std::min(a.max_write_bytes, b.max_write_bytes);
  least.messages_in_flight = std::max(a.messages_in_flight, b.messages_in_flight);
  least.overlapping_lanes = std::max(a.overlapping_lanes, b.overlapping_lanes);
  return least;
}

}  // namespace

SwitchingTransport::SwitchingTransport(std::unique_ptr<Transport> control,
                                       std::unique_ptr<FastDevice> device,
                                       const SwitchingOptions& options,
                                       const std::string& no_device)
    : control_(std::move(control)),
      device_(std::move(device)),
      context_(options, control_->limits().max_frame_bytes),
      health_(kHealthInterval) {
  context_.device = device_.get();
  if (device_ == nullptr) context_.unusable = no_device;
  context_.drain = [this](SwitchingLink& link) { drain(link); };
}

SwitchingTransport::~SwitchingTransport() { links_.clear(); }

WaitHandle SwitchingTransport::wait_handle() {
  const WaitHandle control = control_->wait_handle();
  return device_ == nullptr ? control : control.joined(device_->wait_handle());
}

bool SwitchingTransport::reaches(const Address& peer) const {
  return !context_.options.reaches || context_.options.reaches(peer);
}

TransportLimits SwitchingTransport::limits_towards(std::span<const Address> peers) const {
  if (context_.options.concerns && !peers.empty() && !context_.options.concerns(peers)) {
    return control_->limits_towards(peers);
  }
  TransportLimits limits;
  limits.max_frame_bytes = limits.preferred_eager_bytes = context_.options.max_frame_bytes;
  const bool any = !context_.options.reaches || peers.empty() ||
                   std::ranges::any_of(peers, context_.options.reaches);
  if (any) limits.max_write_bytes = context_.options.max_write_bytes;
  if (device_ != nullptr) {
    limits.messages_in_flight = context_.options.messages_in_flight;
    limits.overlapping_lanes = context_.options.overlapping_lanes;
  }
  const TransportLimits control = control_->limits_towards(peers);
  limits.max_write_bytes = std::min(limits.max_write_bytes, control.max_write_bytes);
  const bool all = !context_.options.reaches ||
                   (!peers.empty() && std::ranges::all_of(peers, context_.options.reaches));
  return all ? limits : Least(limits, control);
}

MemoryDomain& SwitchingTransport::memory() {
  MemoryDomain* of_device = device_ == nullptr ? nullptr : device_->memory();
  return of_device == nullptr ? control_->memory() : *of_device;
}

TransportStats SwitchingTransport::stats() const {
  return device_ == nullptr ? control_->stats() : control_->stats() + device_->stats();
}

Result<Link*> SwitchingTransport::open(const LinkId& id, const Address& peer,
                                       Duration connect_timeout, Instant now) {
  context_.now = std::max(context_.now, now);
  const Result<Link*> control = control_->open(id, peer, connect_timeout, now);
  if (!control.ok()) return control.status();
  if (!reaches(peer)) {
    beyond_reach_ = true;
    return control;
  }
  auto link = std::make_unique<SwitchingLink>(context_, *control.value(), peer);
  Link* opened = link.get();
  links_.emplace(control.value(), std::move(link));
  return opened;
}

size_t SwitchingTransport::poll(Instant now, std::span<Event> events) {
  if (device_ == nullptr && links_.empty()) return control_->poll(now, events);
  context_.now = std::max(context_.now, now);
  if (const Duration pause = pauses_.on_call(now); pause > Duration{0}) {
    for (SwitchingLink* link : context_.with_timer) link->on_pause(pause);
  }
  give_back_lent();
  const bool sends = !context_.dirty.empty();
  context_.dirty.insert(context_.dirty.end(), blocked_.begin(), blocked_.end());
  blocked_.clear();
  pump();
  size_t beyond = 0;
  if (context_.events.empty()) {
    context_.held.clear();
    // What has ended a sleep, if it was not something of the device.
    const bool slept = std::exchange(armed_, false);
    const size_t device_events = poll_device();
    if (device_events == 0 && slept) {
      control_due_ = {};
      health_.hurry();
    }
    if (!may_put_off(sends || device_events > 0)) {
      beyond = poll_control(events);
      check_health();
    }
  }
  run_timers();
  pump();
  reap();
  const size_t count = beyond + take_events(events.subspan(beyond));
  // Without a timer there is none to stand still.
  pauses_.expect(context_.now, context_.with_timer.empty() ? kNever : next_deadline());
  return count;
}

void SwitchingTransport::transmit(Instant now) {
  context_.now = std::max(context_.now, now);
  give_back_lent();
  pump();
  control_->transmit(now);
}

bool SwitchingTransport::may_put_off(bool busy) {
  const bool all_on_path = context_.links_off_path == 0 && !beyond_reach_;
  put_off_ = busy && all_on_path && put_off_ < kMostPutOff ? put_off_ + 1 : 0;
  return put_off_ > 0;
}

// The events that the last poll() handed out are over.
void SwitchingTransport::give_back_lent() {
  for (const FastLease& lease : lent_) {
    if (FastPath* path = device_->release(lease); path != nullptr) path->owner->mark_dirty();
  }
  lent_.clear();
}

// Events of links that no fast path may carry, and of no link, go straight into `events`. Returns
// how many there are.
size_t SwitchingTransport::poll_control(std::span<Event> events) {
  if (context_.links_off_path == 0 && !beyond_reach_ && context_.now < control_due_) return 0;
  const size_t count = control_->poll(
      context_.now, std::span(control_events_).first(std::min(kBatch, events.size())));
  // It may have left something for what its events make us say.
  control_due_ = context_.now + (count > 0 ? Duration{0} : kControlInterval);
  size_t beyond = 0;
  for (const Event& event : std::span(control_events_).first(count)) {
    const auto found = event.link == nullptr ? links_.end() : links_.find(event.link);
    if (found == links_.end()) {
      events[beyond++] = event;
      continue;
    }
    // A link that closed during this batch has let its control link go.
    if (!found->second->finished()) found->second->on_control(event);
  }
  return beyond;
}

size_t SwitchingTransport::poll_device() {
  if (device_ == nullptr) return 0;
  size_t count = 0;
  for (FastEvent event; device_->poll(event); ++count) event.path->owner->on_path(event);
  return count;
}

void SwitchingTransport::check_health() {
  if (device_ == nullptr || !health_.due(context_.now)) return;
  const bool changed = health_.look(context_.now, device_->health(context_.now));
  const Status& health = health_.health();
  context_.unusable = health.message();
  if (!changed) return;
  if (health.ok()) context_.unreached.forget();
  if (!health.ok() && downs_.count(context_.now)) {
    const bool missed = context_.options.expected || links_on_path() > 0;
    Log(missed ? Severity::kWarning : Severity::kInfo,
        device_->description() + ": " + health.message() + downs_.text());
  } else if (health.ok() && downs_.told()) {
    Log(Severity::kInfo, device_->description() + " works again");
  }
  for (const auto& [control, link] : links_) {
    if (health.ok()) {
      link->on_device_up();
    } else {
      link->on_device_down();
    }
  }
}

bool SwitchingTransport::sends_heartbeats() const {
  return device_ != nullptr && device_->leaves_host() && links_on_path() > 0;
}

void SwitchingTransport::run_timers() {
  if (sends_heartbeats() && context_.now >= heartbeats_due_) {
    heartbeats_due_ = context_.now + context_.options.heartbeat_interval;
    for (const auto& [control, link] : links_) link->heartbeat_if_silent();
  }
  if (context_.now < context_.earliest_timer) return;
  context_.earliest_timer = kNever;
  std::vector<SwitchingLink*> due;
  for (SwitchingLink* link : context_.with_timer) {
    if (link->deadline() <= context_.now) {
      due.push_back(link);
    } else {
      context_.earliest_timer = std::min(context_.earliest_timer, link->deadline());
    }
  }
  for (SwitchingLink* link : due) link->on_timer();
}

void SwitchingTransport::pump() {
  in_turn_.swap(context_.dirty);
  for (SwitchingLink* link : in_turn_) {
    link->dirty = false;
    if (link->pump()) continue;
    link->dirty = true;
    blocked_.push_back(link);
  }
  in_turn_.clear();
}

void SwitchingTransport::reap() {
  for (const Link* control : std::exchange(context_.finished, {})) {
    const auto found = links_.find(control);
    SwitchingLink& link = *found->second;
    if (link.dirty) {
      std::erase(context_.dirty, &link);
      std::erase(blocked_, &link);
    }
    links_.erase(found);
  }
}

// Where the kernel does the device's work, flushing needs it to have a turn.
void SwitchingTransport::drain(SwitchingLink& link) {
  for (int look = 0; look < kDrainLooks && !link.drained(); ++look) {
    if (poll_device() == 0) ::sched_yield();
  }
  link.destroy_path();
}

size_t SwitchingTransport::take_events(std::span<Event> events) {
  size_t count = 0;
  while (count < events.size() && !context_.events.empty()) {
    SwitchingPendingEvent& pending = context_.events.front();
    events[count++] = pending.event;
    if (pending.event.kind == Event::Kind::kDown) {
      static_cast<SwitchingLink*>(pending.event.link)->set_status();
    }
    if (pending.lease) lent_.push_back(*pending.lease);
    context_.events.pop_front();
  }
  return count;
}

bool SwitchingTransport::lingering() const {
  return control_->lingering() ||
         std::ranges::any_of(links_, [](const auto& entry) { return entry.second->closing(); });
}

Instant SwitchingTransport::next_deadline() const {
  if (!context_.events.empty() || !context_.dirty.empty() || !lent_.empty()) return context_.now;
  const Instant next = std::min(control_->next_deadline(), context_.earliest_timer);
  return sends_heartbeats() ? std::min(next, heartbeats_due_) : next;
}

bool SwitchingTransport::arm() {
  armed_ = true;
  return control_->arm() && (device_ == nullptr || device_->arm());
}

}  // namespace rocecoll
