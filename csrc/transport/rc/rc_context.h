// SPDX-License-Identifier: Apache-2.0
// What the links of an RC transport share.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "transport/rc/rc_options.h"
#include "transport/rc/rc_wire.h"
#include "transport/rc/receive_pool.h"
#include "transport/rc/registered_memory.h"
#include "transport/rdma.h"
#include "transport/transport.h"

namespace rocecoll {

class RcLink;

// A frame's receive request comes back to the pool, and its credit to the peer, once the event has
// been polled and its time is over.
struct RcPendingEvent {
  Event event;
  std::optional<uint64_t> receive_id;
  uint32_t queue_pair = 0;
};

struct RcContext {
  RcContext(const RcOptions& o, size_t control_frame_bytes)
      : options(o), max_control_frame_bytes(control_frame_bytes) {}

  bool usable() const { return device != nullptr && unusable.empty(); }

  const RcOptions options;
  const size_t max_control_frame_bytes;
  // Null without a device.
  RdmaDevice* device = nullptr;
  RegisteredMemory* memory = nullptr;
  ReceivePool* receives = nullptr;
  std::string unusable;  // why RoCE cannot be used now

  Instant now{};
  TransportStats stats;  // of the queue pairs
  // Polls the device until nothing of the link's queue pairs is outstanding, then destroys them: on
  // several processors Soft-RoCE may still serve a packet of the peer after they have failed.
  std::function<void(RcLink&)> drain;
  size_t finished_links = 0;               // to be destroyed
  size_t links_off_roce = 0;               // that the control path serves, also while they begin
  std::unordered_set<RcLink*> with_timer;  // links with a deadline
  std::unordered_map<uint32_t, RcLink*> by_queue_pair;
  std::vector<RcLink*> dirty;  // to be pumped
  std::deque<RcPendingEvent> events;
  std::vector<WireBytes> held;                // events lend from these
  std::unordered_set<std::string> announced;  // pairs that people have been told of
};

}  // namespace rocecoll
