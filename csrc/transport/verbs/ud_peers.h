// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "transport/address.h"
#include "transport/port.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/queue_pair_address.h"
#include "transport/verbs/verbs_port.h"

namespace rocecoll {

// Whom a datagram port can send to, and how each is found from what packets carry. Address handles
// are kept for the port's life, or until its GID moves; peers with one GID share one.
class UdPeers {
 public:
  struct Peer {
    Address address;  // as it was added
    ibv_ah* handle = nullptr;
    Gid gid;
    uint32_t number = 0;
    uint32_t key = 0;
    size_t max_datagram_bytes = 0;
  };

  // `own`: the port's own address. Peers may have any MTU from `min_mtu_bytes`.
  UdPeers(VerbsPort& port, const QueuePairAddress& own, size_t min_mtu_bytes)
      : port_(port), own_(own), min_mtu_bytes_(min_mtu_bytes) {}

  // As DatagramPort::add_peer. Takes as long as the system needs to find the hardware address of a
  // GID that is new, up to some seconds if nobody answers. Strangers cannot make use of that: only
  // packets with this port's queue key arrive.
  Result<PeerHandle> add(const Address& address);
  // As DatagramPort::remove_peer.
  void remove(PeerHandle peer);
  // New ways to all peers if the port's GID has moved.
  void follow_gid();
  const Peer& operator[](PeerHandle peer) const;
  // Null if it was not added.
  const Peer* find(const Gid& gid, uint32_t number, uint32_t key) const;

 private:
  struct Id {
    Gid gid;
    uint32_t number = 0;
    uint32_t key = 0;
    friend bool operator==(const Id&, const Id&) = default;
  };
  struct Hash {
    size_t operator()(const Id& id) const;
    size_t operator()(const Gid& gid) const;
  };
  Result<ibv_ah*> handle_to(const Gid& gid);
  Result<AddressHandle> make_handle(const Gid& gid) const;

  VerbsPort& port_;
  const QueuePairAddress own_;
  const size_t min_mtu_bytes_;
  std::unordered_map<Gid, AddressHandle, Hash> handles_;
  uint32_t gid_moves_ = 0;      // that the handles know of
  std::deque<Peer> peers_;      // a deque: addresses are lent
  std::vector<uint32_t> free_;  // places in peers_ of removed ones
  std::unordered_map<Id, uint32_t, Hash> index_of_;
};

}  // namespace rocecoll
