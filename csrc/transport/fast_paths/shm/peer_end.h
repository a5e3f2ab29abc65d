// SPDX-License-Identifier: Apache-2.0
// The other end of a path: where it is, and the process that it belongs to once that has greeted.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/status.h"
#include "transport/fast_paths/shm/host_socket.h"
#include "transport/fast_paths/shm/peer_process.h"
#include "transport/fast_paths/shm/shm_end.h"

namespace rocecoll {

class PeerEnd {
 public:
  explicit PeerEnd(const HostSocket& ours) : ours_(ours) {}

  void set(const ShmEnd& end) {
    end_ = end;
    address_ = HostSocketAddress(end.socket);
  }
  // Hands our ring and doorbell over. As of HostSocket::greet().
  Result<bool> greet(int ring, int doorbell) const {
    return ours_.greet(address_, {ours_.name(), end_.nonce, slot()}, ring, doorbell);
  }
  void meet(std::shared_ptr<PeerProcess> process) { process_ = std::move(process); }
  void forget() { process_.reset(); }
  // Null before it has greeted.
  PeerProcess* process() const { return process_.get(); }
  // Tells it that there is something to look at. Once its process is known.
  void ring() const {
    if (process_->doorbell.ring(slot())) ours_.wake(address_);
  }

 private:
  uint32_t slot() const { return static_cast<uint32_t>(end_.slot); }

  const HostSocket& ours_;
  ShmEnd end_;
  HostSocketAddress address_;
  std::shared_ptr<PeerProcess> process_;
};

}  // namespace rocecoll
