// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/endpoint_table.h"

#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace rocecoll {
namespace {

template <typename Map, typename Key>
auto FindOrNull(const Map& map, const Key& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &*found->second;
}

}  // namespace

PeerPath& EndpointTable::path(PeerHandle peer, uint64_t max_window_bytes,
                              CongestionControl control) {
  std::unique_ptr<PeerPath>& path = paths_[peer.index];
  if (path == nullptr) path = std::make_unique<PeerPath>(peer, max_window_bytes, control);
  return *path;
}

void EndpointTable::set_idle(PeerPath& path, bool idle) {
  if (IdlePathList::linked(path) == idle) return;
  if (idle) {
    idle_.push_back(path);
    ++idle_count_;
  } else {
    idle_.erase(path);
    --idle_count_;
  }
}

void EndpointTable::remove_path(PeerHandle peer) {
  PeerPath* path = find_path(peer);
  ROCECOLL_CHECK(path != nullptr && path->endpoints.empty());
  set_idle(*path, false);
  paths_.erase(peer.index);
}

PeerPath* EndpointTable::find_path(PeerHandle peer) const { return FindOrNull(paths_, peer.index); }

Endpoint& EndpointTable::add(const ConnectionOptions& options, const LinkId& id, PeerPath& path,
                             Instant now) {
  uint64_t local_id = EntropyId();
  while (by_local_id_.contains(local_id)) local_id = EntropyId();
  auto endpoint = std::make_unique<Endpoint>(options, id, local_id, path, now);
  Endpoint& added = *endpoint;
  by_local_id_[local_id] = std::move(endpoint);
  ROCECOLL_CHECK(by_link_.try_emplace(id, &added).second);
  path.endpoints.push_back(added);
  set_idle(path, false);
  return added;
}

void EndpointTable::remove(Endpoint& endpoint) {
  if (last_found_ == &endpoint) last_found_ = nullptr;
  endpoint.path.endpoints.erase(endpoint);
  endpoint.path.waiting.erase(endpoint);
  set_idle(endpoint.path, endpoint.path.endpoints.empty());
  by_link_.erase(endpoint.connection.link());
  if (endpoint.peer_id != 0) by_peer_id_.erase(endpoint.peer_id);
  by_local_id_.erase(endpoint.connection.local_id());  // destroys it
}

Endpoint* EndpointTable::find(uint64_t local_id) const {
  if (last_found_ != nullptr && last_found_->connection.local_id() == local_id) return last_found_;
  Endpoint* found = FindOrNull(by_local_id_, local_id);
  if (found != nullptr) last_found_ = found;
  return found;
}

Endpoint* EndpointTable::find(const LinkId& id) const { return FindOrNull(by_link_, id); }

Endpoint* EndpointTable::find_by_peer_id(uint64_t peer_id) const {
  return FindOrNull(by_peer_id_, peer_id);
}

void EndpointTable::set_peer_id(Endpoint& endpoint, uint64_t peer_id) {
  ROCECOLL_CHECK(endpoint.peer_id == 0 && peer_id != 0);
  // If two peers have the same random id, the later one is not found by it and will seem silent.
  if (by_peer_id_.try_emplace(peer_id, &endpoint).second) endpoint.peer_id = peer_id;
}

}  // namespace rocecoll
