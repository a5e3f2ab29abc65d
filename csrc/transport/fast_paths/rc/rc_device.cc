// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/rc/rc_device.h"

#include <algorithm>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace rocecoll {
namespace {

// A receive queue must hold a request for each message that a peer may send.
uint32_t CreditsOf(const RdmaLimits& limits, const RcOptions& options) {
  const uint32_t others = StreamCredits::ReceivesFor(0);
  const uint32_t receives = std::min(limits.max_receive_requests, kMaxReceivesPerQueuePair);
  return std::min(options.credits, std::max(receives, others) - others);
}

}  // namespace

RcDevice::RcDevice(RdmaDevices devices, const RcOptions& options)
    : options_(options),
      rails_(std::move(devices)),
      credits_(CreditsOf(rails_.limits(), options)),
      memory_(rails_, static_cast<RegistrationId>(options.first_number)) {
  ROCECOLL_CHECK(options.queue_pairs_per_connection >= 1 &&
                 options.queue_pairs_per_connection <= FastPath::kMaxStreams &&
                 options.credits >= 1 && options.credits < UINT16_MAX);
  for (size_t rail = 0; rail < rails_.count(); ++rail) {
    polled_[rail].receives = std::make_unique<ReceivePool>(rails_, rail, memory_.buffers());
  }
}

std::unique_ptr<RcStream> RcDevice::make_stream(size_t rail, Traffic& traffic) {
  return std::make_unique<RcStream>(rails_[rail], rail, memory_, stats_, traffic, options_);
}

bool RcDevice::poll(FastEvent& event) {
  while (!told_.empty()) {
    const auto [path, kind] = told_.front();
    told_.pop_front();
    // Its streams may have been replaced meanwhile.
    const bool holds = kind == FastEvent::Kind::kFewerEnds
                           ? (path->rails() & ~rails_.working()) != 0
                           : path->lacks(rails_.working());
    if (!holds) continue;
    event.kind = kind;
    event.path = path;
    event.text = "a port is down";
    return true;
  }
  for (; turn_ < rails_.count(); ++turn_) {
    if (poll_rail(turn_, event)) return true;
  }
  turn_ = 0;
  return false;
}

// Handles one completion at a time, because the link that gets it may destroy the queue pair of the
// next one.
bool RcDevice::poll_rail(size_t rail, FastEvent& event) {
  Polled& polled = polled_[rail];
  if (polled.completed == 0) polled.completed = rails_[rail].poll(polled.batch);
  while (polled.next < polled.completed) {
    const WorkCompletion& completion = polled.batch[polled.next++];
    const auto found = by_queue_pair_.find(Key(rail, completion.queue_pair));
    if (found != by_queue_pair_.end()) {
      event = found->second->on_completion(rail, completion);
      return true;
    }
    // Its queue pair is gone.
    const bool received = completion.kind == WorkCompletion::Kind::kReceive ||
                          completion.kind == WorkCompletion::Kind::kReceiveImmediate;
    if (received) polled.receives->on_orphaned(completion.id);
  }
  polled.next = polled.completed = 0;
  polled.receives->flush();
  return false;
}

bool RcDevice::arm() {
  if (!told_.empty()) return false;
  for (size_t rail = 0; rail < rails_.count(); ++rail) {
    if (polled_[rail].next != polled_[rail].completed) return false;
  }
  return rails_.arm();
}

Status RcDevice::health(Instant now) {
  memory_.drop_freed();
  const Rails::Set before = rails_.working();
  Status status = rails_.look();
  const Rails::Set changed = before ^ rails_.working();
  if (changed == 0 || rails_.count() == 1) return status;
  for (size_t rail = 0; rail < rails_.count(); ++rail) {
    if ((changed >> rail & 1) != 0) tell(rail, now);
  }
  if (status.ok()) tell_paths(changed & before, changed & rails_.working());
  return status;
}

void RcDevice::tell(size_t rail, Instant now) {
  Tally& downs = polled_[rail].downs;
  const std::string& name = rails_[rail].description();
  if ((rails_.working() >> rail & 1) != 0) {
    if (downs.told()) Log(Severity::kInfo, name + " works again");
  } else if (downs.count(now) && rails_.working() != 0) {
    Log(Severity::kWarning, rails_.problem(rail) + downs.text() + "; what it carried goes over " +
                                rails_.describe(rails_.working()));
  }
}

void RcDevice::tell_paths(Rails::Set lost, Rails::Set back) {
  std::unordered_set<RcPath*> seen;
  for (const auto& [key, path] : by_queue_pair_) {
    if (!seen.insert(path).second) continue;
    if ((path->rails() & lost) != 0) {
      told_.emplace_back(path, FastEvent::Kind::kFewerEnds);
    } else if (path->lacks(back)) {
      told_.emplace_back(path, FastEvent::Kind::kMoreEnds);
    }
  }
}

void RcDevice::flush_receives() {
  for (size_t rail = 0; rail < rails_.count(); ++rail) receives(rail).flush();
}

void RcDevice::remove(const RcStream& stream) {
  by_queue_pair_.erase(KeyOf(stream));
  Polled& polled = polled_[stream.rail()];
  const auto rest = std::span(polled.batch).subspan(polled.next, polled.completed - polled.next);
  for (WorkCompletion& completion : rest) {
    if (completion.queue_pair == stream.number()) completion.queue_pair = kNoQueuePair;
  }
  polled.receives->empty(stream.queue_pair());
}

void RcDevice::forget(RcPath& path) {
  std::erase(short_of_memory_, &path);
  std::erase_if(told_, [&path](const auto& told) { return told.first == &path; });
}

void RcDevice::wait_for_memory(RcPath& path) {
  if (std::ranges::find(short_of_memory_, &path) == short_of_memory_.end()) {
    short_of_memory_.push_back(&path);
  }
}

void RcDevice::on_memory_back() {
  for (RcPath* path : std::exchange(short_of_memory_, {})) path->owner->mark_dirty();
}

FastPath* RcDevice::release(const FastLease& lease) {
  const size_t rail = RailOf(lease.stream);
  receives(rail).repost(lease.id);
  const auto found = by_queue_pair_.find(lease.stream);
  if (found == by_queue_pair_.end()) return nullptr;
  found->second->on_reposted(rail, static_cast<uint32_t>(lease.stream));
  return found->second;
}

std::unique_ptr<SwitchingTransport> MakeRcTransport(std::unique_ptr<Transport> control,
                                                    RdmaDevices devices, const RcOptions& options,
                                                    const std::string& no_device) {
  std::unique_ptr<FastDevice> fast;
  if (!devices.empty()) fast = std::make_unique<RcDevice>(std::move(devices), options);
  return std::make_unique<SwitchingTransport>(std::move(control), std::move(fast), options,
                                              no_device.empty() ? "no RDMA device" : no_device);
}

}  // namespace rocecoll
