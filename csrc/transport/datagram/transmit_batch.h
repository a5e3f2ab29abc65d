// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/port.h"
#include "transport/transport.h"

namespace rocecoll {

struct Endpoint;

// Datagrams on their way into the port: their headers are stored here, their payloads are lent.
// Datagrams that the port has no room for stay and go first, so that a full socket buffer loses
// nothing.
class TransmitBatch {
 public:
  TransmitBatch(DatagramPort& port, TransportStats& stats);

  // Whether there is room for a datagram of up to `datagram_bytes`. If not, send() first.
  bool has_room(size_t datagram_bytes) const;
  // Space to build the next datagram's header in, at least as large as the largest datagram.
  std::span<std::byte> space();
  // `datagram.header` lies in space().
  void add(const TxDatagram& datagram, const Endpoint* owner);
  // True if everything was sent. Otherwise nothing may be added until it is.
  bool send();
  size_t size() const { return datagrams_.size() - first_; }
  bool blocked() const { return blocked_; }
  // Forgets the owner's datagrams that lend its memory.
  void drop_lent(const Endpoint* owner);

 private:
  void copy_queued();

  DatagramPort& port_;
  TransportStats& stats_;
  const size_t max_datagram_bytes_;
  const size_t max_datagrams_;
  std::vector<std::byte> arena_;
  size_t arena_used_ = 0;
  size_t bytes_ = 0;
  std::vector<TxDatagram> datagrams_;
  std::vector<const Endpoint*> owners_;  // of datagrams_
  size_t first_ = 0;                     // the first of datagrams_ that is not yet sent
  bool blocked_ = false;
};

}  // namespace rocecoll
