// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/time.h"
#include "transport/address.h"
#include "transport/transport.h"

namespace rocecoll {

// The words for people. The owner of a fast path supplies them, because SwitchingTransport does not
// know which kind of path it is.
struct SwitchingWords {
  std::string path;
  std::string link;         // what carries one link on it
  std::string not_exposed;  // says that it cannot write into some memory
  std::string control;      // the control path
};

struct SwitchingOptions {
  SwitchingWords words;
  // Pairs that the fast path does not carry, or no longer carries, go on over the control path.
  // Otherwise they fail.
  bool failover = true;
  // The path was requested by name, so a pair that does without it gets a warning, not only a note.
  bool expected = true;
  // For both ends to prove the path, once they are connected.
  Duration proof_timeout = std::chrono::seconds(3);
  // For both ends to connect, counted from when both have opened the link. A system may look for an
  // address for seconds, and for one address after another.
  Duration connect_timeout = std::chrono::seconds(20);
  // The part of that time for which a link waits that can try again, but carries nothing meanwhile.
  // After a port has come up, Linux takes more than a second to get an answer to ARP.
  Duration connect_patience = std::chrono::seconds(3);
  // How often a link's path is made anew after errors found by one end, each soon after the last,
  // before the path counts as broken.
  uint32_t max_recoveries = 8;
  // Once the control path has been silent for two of these intervals, the fast path carries a sign
  // of life in each. The same as the control transport's own (ConnectionOptions).
  Duration heartbeat_interval = std::chrono::milliseconds(500);
  // Whether a link that the control path carries tries the fast path again, for as long as both
  // ends have a device and failover is on.
  bool returns = false;
  // Of messages and, modulo 2^32, of writes and slices, at both ends. The protocol says 0; tests
  // begin with numbers that otherwise only a long life reaches.
  uint64_t first_number = 0;
  // Of a frame. The same for all fast paths of one kind.
  size_t max_frame_bytes = 4096;
  size_t max_write_bytes = SIZE_MAX;  // likewise
  uint32_t messages_in_flight = UINT32_MAX;
  uint32_t overlapping_lanes = TransportLimits().overlapping_lanes;
  // Whether a fast path to this process is worth an attempt: the same at both ends. Links to other
  // processes are those of the control transport. Null: it is worth one to every process.
  using ReachedPeers = std::function<bool(const Address&)>;
  ReachedPeers reaches = nullptr;
  // Whether any two of a group's processes may have a fast path between them, the same at all of
  // them. If none have, the group's limits are those of the control transport. Null: they may.
  std::function<bool(std::span<const Address>)> concerns = nullptr;
};

}  // namespace rocecoll
