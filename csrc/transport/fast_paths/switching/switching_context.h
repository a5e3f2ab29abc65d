// SPDX-License-Identifier: Apache-2.0
// What the links of a SwitchingTransport share.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "transport/fast_path.h"
#include "transport/fast_paths/switching/switching_options.h"
#include "transport/fast_paths/switching/unreached_peers.h"
#include "transport/transport.h"

namespace rocecoll {

class SwitchingLink;

// A frame's lease goes back, and its credit to the peer, once the event has been polled and its
// time is over.
struct SwitchingPendingEvent {
  Event event;
  std::optional<FastLease> lease;
};

struct SwitchingContext {
  SwitchingContext(const SwitchingOptions& o, size_t control_frame_bytes)
      : options(o), max_control_frame_bytes(control_frame_bytes) {}

  bool usable() const { return device != nullptr && unusable.empty(); }

  const SwitchingOptions options;
  const size_t max_control_frame_bytes;
  FastDevice* device = nullptr;  // null without one
  std::string unusable;          // why no path can be used now

  Instant now{};
  // Polls the device until nothing of the link's path is outstanding, then destroys its ends: on
  // several processors Soft-RoCE may still serve a packet of the peer after they have failed.
  std::function<void(SwitchingLink&)> drain;
  std::vector<const Link*> finished;  // the control links of those to be destroyed
  size_t links_off_path = 0;          // that the control path serves, also while they begin
  std::unordered_set<SwitchingLink*> with_timer;  // links with a deadline
  Instant earliest_timer = kNever;                // none of them is due before
  std::vector<SwitchingLink*> dirty;              // to be pumped
  std::deque<SwitchingPendingEvent> events;
  std::vector<WireBytes> held;                // events lend from these
  WireBytes control_frame_head;               // for one frame on its way there
  std::unordered_set<std::string> announced;  // pairs that people have been told of
  UnreachedPeers unreached;
};

}  // namespace rocecoll
