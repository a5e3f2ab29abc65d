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

// Whom a datagram port can send to, and how each is found from what packets carry. Address handles
// know hardware addresses; they are kept for the port's life, or until they are renewed. Peers with
// one GID share one.
class UdPeers {
 public:
  struct Way {
    AddressHandle handle;  // null: not found yet
    bool sought = false;
    uint32_t gid_moves = 0;  // of the port, when it was sought last
    bool told = false;       // people, that it was not found
  };
  struct Peer {
    Address address;  // as it was added
    const Way* way = nullptr;
    Gid gid;
    uint32_t number = 0;
    uint32_t key = 0;
    size_t max_datagram_bytes = 0;
  };

  // `own`: the port's own address. Peers may have any MTU from `min_mtu_bytes`.
  // The owner calls finish() of `slow_calls`, and ends them before this object.
  UdPeers(VerbsPort& port, SlowCalls& slow_calls, const QueuePairAddress& own, size_t min_mtu_bytes)
      : port_(port), slow_calls_(slow_calls), own_(own), min_mtu_bytes_(min_mtu_bytes) {}

  // As in DatagramPort. Strangers cannot make the system look for ways: only packets with this
  // port's queue key arrive.
  Result<PeerHandle> add(const Address& address);
  void renew_way(PeerHandle peer);
  bool seeks_way(PeerHandle peer) const { return (*this)[peer].way->sought; }
  // As DatagramPort::remove_peer.
  void remove(PeerHandle peer);
  // Requests before number `done` are over, `posted` is the next one's: devices may look at a
  // handle until a request is over, also at one that has been replaced since.
  void drop_replaced(uint64_t done, uint64_t posted);
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
  struct Replaced {
    AddressHandle handle;
    uint64_t until = UINT64_MAX;  // the first request that cannot have it; not known yet: the most
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
  uint32_t gid_moves_ = 0;      // that the ways know of
  std::deque<Peer> peers_;      // a deque: addresses are lent
  std::vector<uint32_t> free_;  // places in peers_ of removed ones
  std::unordered_map<Id, uint32_t, Hash> index_of_;
};

}  // namespace rocecoll
