// SPDX-License-Identifier: Apache-2.0
// The records of a datagram transport: an Endpoint per connection, a PeerPath per peer process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/intrusive_list.h"
#include "transport/datagram/datagram_link.h"
#include "transport/datagram/deadline_heap.h"
#include "transport/datagram/reliability/connection.h"
#include "transport/port.h"

namespace rocecoll {

struct PeerPath;

struct Endpoint {
  Endpoint(const ConnectionOptions& options, const LinkId& id, uint64_t local_id, PeerPath& path,
           Instant now);

  PeerPath& path;
  Connection connection;
  uint64_t process = 0;  // the peer's Address::process()
  // Null once the owner has closed it. The connection goes on until it has nothing left to send.
  std::unique_ptr<DatagramLink> link;
  uint64_t peer_id = 0;           // the peer's connection id; zero until established
  uint64_t advertised_bytes = 0;  // the receive window that the connection advertises
  Traffic traffic;                // except for what the connection counts
  bool sends_bulk = false;        // counted by ReceiveShares
  Instant bulk_heard{};
  DeadlineHook deadline;
  ListHook<Endpoint> transmit_hook;
  ListHook<Endpoint> event_hook;
  ListHook<Endpoint> wait_hook;
  ListHook<Endpoint> path_hook;
  ListHook<Endpoint> closing_hook;
  ListHook<Endpoint> finished_hook;
};

using TransmitList = IntrusiveList<Endpoint, &Endpoint::transmit_hook>;
using EventList = IntrusiveList<Endpoint, &Endpoint::event_hook>;
using WaitList = IntrusiveList<Endpoint, &Endpoint::wait_hook>;
using ClosingList = IntrusiveList<Endpoint, &Endpoint::closing_hook>;
using FinishedList = IntrusiveList<Endpoint, &Endpoint::finished_hook>;
using PathList = IntrusiveList<Endpoint, &Endpoint::path_hook>;

// A path outlives its endpoints, within bounds: see EndpointTable.
struct PeerPath {
  PeerPath(PeerHandle peer, uint64_t max_window_bytes, CongestionControl control)
      : peer(peer), path(max_window_bytes, control) {}

  const PeerHandle peer;
  std::string name;  // the peer's address
  Path path;
  PathList endpoints;
  // Endpoints that may be waiting for room in the window that they share.
  WaitList waiting;
  uint32_t bulk_senders = 0;  // among its endpoints, by ReceiveShares
  Instant confirmed_at{};     // when confirm() was last called for its connections
  ListHook<PeerPath> idle_hook;
};

using IdlePathList = IntrusiveList<PeerPath, &PeerPath::idle_hook>;

inline Endpoint::Endpoint(const ConnectionOptions& options, const LinkId& id, uint64_t local_id,
                          PeerPath& path, Instant now)
    : path(path), connection(options, id, local_id, path.path, now) {}

}  // namespace rocecoll
