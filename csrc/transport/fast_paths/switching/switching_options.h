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

// What people call things: of whoever has a faster path, as SwitchingTransport does not know its
// kind.
struct SwitchingWords {
  std::string path;
  std::string link;         // what carries one link on it
  std::string not_exposed;  // says that it cannot write into some memory
  std::string control;      // the control path
};

struct SwitchingOptions {
  SwitchingWords words;
  // Pairs that it does not (or no longer) carry go on over the control path. Else they fail.
  bool failover = true;
  // It was asked for by name: that a pair does without it is worth a warning, not only a note.
  bool expected = true;
  // For both ends to prove the path, once they are connected.
  Duration proof_timeout = std::chrono::seconds(3);
  // For both to connect, from when both have opened the link: a system may look for an address for
  // seconds, and for one after the other.
  Duration connect_timeout = std::chrono::seconds(20);
  // How much of that a link waits for on which nothing goes on meanwhile, if it can try again.
  // After a link has come up Linux takes more than a second to have ARP answered.
  Duration connect_patience = std::chrono::seconds(3);
  // How often one link's path is made anew after errors that one end finds, each soon after the
  // last, before it counts as broken.
  uint32_t max_recoveries = 8;
  // Once the control path has been silent for two of these, the faster one carries signs of life,
  // one in each; as the control transport's own (ConnectionOptions).
  Duration heartbeat_interval = std::chrono::milliseconds(500);
  // Whether a link that the control path carries tries the faster one again, for as long as both
  // ends have a device and failover is on.
  bool returns = false;
  // Of messages and, modulo 2^32, of writes and slices, at both ends: the protocol says 0. Tests
  // begin where a long life would lead.
  uint64_t first_number = 0;
  // Of a frame; every faster path of one kind takes the same.
  size_t max_frame_bytes = 4096;
  size_t max_write_bytes = SIZE_MAX;  // likewise
  uint32_t messages_in_flight = UINT32_MAX;
  uint32_t overlapping_lanes = TransportLimits().overlapping_lanes;
  // Whether a faster path to this process is worth an attempt: the same at both ends. To others
  // links are those of the control transport. None: to everybody.
  using ReachedPeers = std::function<bool(const Address&)>;
  ReachedPeers reaches = nullptr;
  // Whether any two of a group's processes may have a faster path between them, the same at all of
  // them; where none have, its limits are those of the control transport. None: they may.
  std::function<bool(std::span<const Address>)> concerns = nullptr;
};

}  // namespace rocecoll
