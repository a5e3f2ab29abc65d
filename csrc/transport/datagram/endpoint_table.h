// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "transport/datagram/datagram_endpoint.h"
#include "transport/datagram/reliability/packet_wire.h"

namespace rocecoll {

// Owns a transport's endpoints and paths, and finds them by what packets carry.
class EndpointTable {
 public:
  // What was learned of the path to a peer serves its next group. But peers that are restarted come
  // back with new addresses, so that only this many paths without endpoints are kept.
  static constexpr size_t kMaxIdlePaths = 1024;

  // The path to the peer, which is created if needed, with a window of at most `max_window_bytes`.
  PeerPath& path(PeerHandle peer, uint64_t max_window_bytes, CongestionControl control);
  // Null if there is none.
  PeerPath* find_path(PeerHandle peer) const;

  // The path that has had no endpoints for longest, if there are more than kMaxIdlePaths such
  // paths.
  const PeerPath* surplus_path() const {
    return idle_count_ > kMaxIdlePaths ? idle_.front() : nullptr;
  }
  void remove_path(PeerHandle peer);

  Endpoint& add(const ConnectionOptions& options, const LinkId& id, PeerPath& path, Instant now);
  // Removes it from its path's lists as well.
  void remove(Endpoint& endpoint);

  Endpoint* find(uint64_t local_id) const;
  Endpoint* find(const LinkId& id) const;
  // By the connection id at the peer's end.
  Endpoint* find_by_peer_id(uint64_t peer_id) const;
  // The connection has learned the peer's id.
  void set_peer_id(Endpoint& endpoint, uint64_t peer_id);

  template <typename F>
  void for_each_path(F&& function) const {
    for (const auto& [handle, path] : paths_) function(*path);
  }
  size_t size() const { return by_local_id_.size(); }
  template <typename F>
  void for_each(F&& function) const {
    for (const auto& [id, endpoint] : by_local_id_) function(*endpoint);
  }

 private:
  void set_idle(PeerPath& path, bool idle);

  std::unordered_map<uint32_t, std::unique_ptr<PeerPath>> paths_;  // by PeerHandle::index
  std::unordered_map<uint64_t, std::unique_ptr<Endpoint>> by_local_id_;
  std::unordered_map<LinkId, Endpoint*, LinkIdHash> by_link_;
  std::unordered_map<uint64_t, Endpoint*> by_peer_id_;
  IdlePathList idle_;  // without endpoints, longest first
  size_t idle_count_ = 0;
  mutable Endpoint* last_found_ = nullptr;  // packets of a connection come in trains
};

}  // namespace rocecoll
