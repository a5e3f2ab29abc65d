// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "transport/address.h"
#include "transport/port.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/queue_pair_address.h"
#include "transport/verbs/slow_calls.h"
#include "transport/verbs/verbs_port.h"

namespace rocecoll {

// The peers to which a datagram port can send, and how each is identified from what packets carry.
// Address handles know hardware addresses; they are kept for the port's life, or until they are
// renewed. Peers with the same GID share one.
class UdPeers {
 public:
  struct Way {
    AddressHandle handle;  // null: not found yet
    bool sought = false;
    uint32_t gid_moves = 0;  // moves of the port's GID when this way was last sought
    bool told = false;       // the log has said that the way was not found
  };
  struct Peer {
    Address address;  // as passed to add()
    const Way* way = nullptr;
    Gid gid;
    uint32_t number = 0;
    uint32_t key = 0;
    size_t max_datagram_bytes = 0;
  };

  // `own`: the port's own address. Peers may have any MTU from `min_mtu_bytes`.
  // The owner calls finish() of `slow_calls`, and destroys `slow_calls` before this object.
  UdPeers(VerbsPort& port, SlowCalls& slow_calls, const QueuePairAddress& own, size_t min_mtu_bytes)
      : port_(port), slow_calls_(slow_calls), own_(own), min_mtu_bytes_(min_mtu_bytes) {}

  // As in DatagramPort. Strangers cannot make the system look for ways, because only packets with
  // this port's queue key arrive.
  Result<PeerHandle> add(const Address& address);
  void renew_way(PeerHandle peer);
  bool seeks_way(PeerHandle peer) const { return (*this)[peer].way->sought; }
  // As DatagramPort::remove_peer.
  void remove(PeerHandle peer);
  // Requests before number `done` are over, and `posted` is the number of the next one. Devices may
  // look at a handle until a request is over, even if the handle has been replaced since.
  void drop_replaced(uint64_t done, uint64_t posted);
  // Looks for new ways to all peers if the port's GID has moved.
  void follow_gid();
  const Peer& operator[](PeerHandle peer) const;
  // Returns null if the peer was not added.
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
  struct Replaced {
    AddressHandle handle;
    uint64_t until = UINT64_MAX;  // the first request that cannot use it; the maximum while unknown
  };
  static constexpr size_t kMaxReplaced = 256;

  const Way& way_to(const Gid& gid);
  void seek(const Gid& gid, Way& way);
  void on_sought(const Gid& gid, AddressHandle found, int error);

  VerbsPort& port_;
  SlowCalls& slow_calls_;
  const QueuePairAddress own_;
  const size_t min_mtu_bytes_;
  std::unordered_map<Gid, Way, Hash> ways_;
  std::deque<Replaced> replaced_;
  uint32_t gid_moves_ = 0;      // those that the ways take into account
  std::deque<Peer> peers_;      // a deque, because addresses of elements are lent
  std::vector<uint32_t> free_;  // places in peers_ of removed peers
  std::unordered_map<Id, uint32_t, Hash> index_of_;
};

}  // namespace rocecoll
