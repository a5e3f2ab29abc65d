// SPDX-License-Identifier: Apache-2.0
// One end of a simulated link. Both ends must have been opened before anything travels; until then,
// what is sent waits here.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "transport/transport.h"

namespace rocecoll {

class SimTransport;

class SimLink final : public Link, public std::enable_shared_from_this<SimLink> {
 public:
  SimLink(SimTransport& transport, const LinkId& id, uint32_t peer_endpoint)
      : transport_(transport), id_(id), peer_endpoint_(peer_endpoint) {}

  LinkId id() const override { return id_; }
  bool send_frame(const FrameBytes& frame) override;
  uint64_t unsent_frames() const override { return down_.ok() ? waiting_.size() : unsent_; }
  bool write(const RemoteSlice& to, LocalSlice from, uint32_t token) override;
  RemoteSlice expose(LocalSlice into, uint32_t token) override;
  void unexpose(const RemoteSlice& slice) override;
  void close(const Status& why) override;
  const Status& status() const override { return reported_; }

 private:
  friend class SimTransport;

  // What travels: a frame, a write, or the goodbye of a link that was closed in good order.
  struct Transfer {
    enum class Kind : uint8_t { kFrame, kWrite, kGoodbye };
    Kind kind = Kind::kFrame;
    uint32_t token = 0;
    std::vector<std::byte> frame;
    RemoteSlice to;
    LocalSlice from;
  };
  struct Region {
    LocalSlice memory;
    uint32_t token = 0;
  };

  bool live() const { return !closed_ && down_.ok(); }
  void establish(const std::shared_ptr<SimLink>& peer);
  void go_down(const Status& why);
  void start(Transfer transfer);
  void transmit(Transfer transfer);
  // Runs at the receiver when the last byte has arrived.
  void deliver(SimLink& sender, Transfer& transfer);
  void deliver_write(SimLink& sender, const Transfer& transfer);
  // Runs at the sender when a transfer has left the queue, because it was polled, written or given
  // up.
  void leave_queue(Transfer::Kind kind);

  SimTransport& transport_;
  const LinkId id_;
  const uint32_t peer_endpoint_;
  std::weak_ptr<SimLink> peer_;   // set once established; expires when the peer has closed
  std::deque<Transfer> waiting_;  // until the link is established
  std::unordered_map<uint64_t, Region> regions_;
  uint64_t next_region_ = 1;
  uint32_t queued_frames_ = 0;  // accepted, but not yet polled by the peer
  uint32_t queued_writes_ = 0;
  uint64_t unsent_ = 0;  // at the moment when the link went down
  Instant last_arrival_{};
  bool established_ = false;
  bool refused_ = false;  // the owner waits for room
  bool closed_ = false;
  Status down_;      // why the link is down; set as soon as it is
  Status reported_;  // the same, set once Down was polled
};

}  // namespace rocecoll
