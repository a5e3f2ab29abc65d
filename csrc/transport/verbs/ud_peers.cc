// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/ud_peers.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"

namespace rocecoll {
namespace {

// More than the ranks of any known job.
constexpr size_t kMaxPeers = 65'536;

Status Refuse(const Address& address, const std::string& why) {
  return Status(StatusCode::kInvalidArgument,
                "cannot send datagrams to " + address.text() + ": " + why);
}

}  // namespace

size_t UdPeers::Hash::operator()(const Gid& gid) const {
  const auto bytes = std::as_bytes(std::span(gid.bytes));
  return HashWords({LoadLe<uint64_t>(bytes.data()), LoadLe<uint64_t>(&bytes[8])});
}

size_t UdPeers::Hash::operator()(const Id& id) const {
  return HashWords({(*this)(id.gid), uint64_t{id.number} << 32 | id.key});
}

Result<PeerHandle> UdPeers::add(const Address& address) {
  const Result<QueuePairAddress> parsed =
      ToQueuePairAddress(address, QueuePairAddress::Kind::kDatagrams);
  if (!parsed.ok()) return parsed.status();
  const QueuePairAddress& peer = parsed.value();
  const Id id{peer.gid, peer.number, peer.packet_number_or_key};
  if (const auto known = index_of_.find(id); known != index_of_.end()) {
    return PeerHandle{known->second};
  }
  if (peer.gid.is_ipv4() != own_.gid.is_ipv4()) {
    return Refuse(address, "it and this port's GID, " + ToText(own_.gid) +
                               ", are of different families; choose with the option gid_index");
  }
  if (peer.mtu_bytes < min_mtu_bytes_) {
    return Refuse(address, "its MTU of " + std::to_string(peer.mtu_bytes) + " bytes is below " +
                               std::to_string(min_mtu_bytes_));
  }
  if (index_of_.size() >= kMaxPeers) {
    return Status(StatusCode::kNetwork, "this process already talks to " +
                                            std::to_string(kMaxPeers) + " datagram queue pairs");
  }
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(peers_.size()));
    peers_.emplace_back();
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  peers_[index] = {address, &way_to(peer.gid),
                   id.gid,  id.number,
                   id.key,  std::min(peer.mtu_bytes, own_.mtu_bytes)};
  index_of_.emplace(id, index);
  return PeerHandle{index};
}

void UdPeers::remove(PeerHandle peer) {
  const Peer& gone = (*this)[peer];
  ROCECOLL_CHECK(index_of_.erase({gone.gid, gone.number, gone.key}) == 1);
  free_.push_back(peer.index);
}

void UdPeers::follow_gid() {
  if (gid_moves_ == port_.gid_moves()) return;
  gid_moves_ = port_.gid_moves();
  // Old ways lose what is sent over them, as a failed path does.
  for (auto& [gid, way] : ways_) seek(gid, way);
}

void UdPeers::drop_replaced(uint64_t done, uint64_t posted) {
  for (Replaced& replaced : replaced_) replaced.until = std::min(replaced.until, posted);
  while (!replaced_.empty() && replaced_.front().until <= done) replaced_.pop_front();
}

void UdPeers::renew_way(PeerHandle peer) {
  const Gid& gid = (*this)[peer].gid;
  seek(gid, ways_.at(gid));
}

const UdPeers::Way& UdPeers::way_to(const Gid& gid) {
  const auto [found, added] = ways_.try_emplace(gid);
  if (added) seek(gid, found->second);
  return found->second;
}

void UdPeers::seek(const Gid& gid, Way& way) {
  if (std::exchange(way.sought, true)) return;
  struct Call {
    ibv_pd* domain = nullptr;
    ibv_ah_attr path{};
    AddressHandle handle;
    int error = 0;
  };
  way.gid_moves = port_.gid_moves();
  auto call = std::make_shared<Call>(port_.protection_domain(), port_.path_to(gid));
  slow_calls_.submit(
      [call] {
        call->handle.reset(ibv_create_ah(call->domain, &call->path));
        call->error = errno;
      },
      [this, call, gid] { on_sought(gid, std::move(call->handle), call->error); });
}

void UdPeers::on_sought(const Gid& gid, AddressHandle found, int error) {
  Way& way = ways_.at(gid);
  way.sought = false;
  if (way.gid_moves != port_.gid_moves()) {
    seek(gid, way);
  } else if (found != nullptr) {
    std::swap(way.handle, found);
    way.told = false;
    if (found != nullptr) replaced_.push_back({std::move(found)});
    if (replaced_.size() > kMaxReplaced) replaced_.pop_front();
  } else if (!std::exchange(way.told, true)) {
    const std::string what = "find the way from " + ToText(own_.gid) + " to " + ToText(gid);
    Log(Severity::kInfo, port_.error(what, error).message());
  }
}

const UdPeers::Peer& UdPeers::operator[](PeerHandle peer) const {
  ROCECOLL_CHECK(peer.index < peers_.size());
  return peers_[peer.index];
}

const UdPeers::Peer* UdPeers::find(const Gid& gid, uint32_t number, uint32_t key) const {
  const auto known = index_of_.find({gid, number, key});
  return known == index_of_.end() ? nullptr : &peers_[known->second];
}

}  // namespace rocecoll
