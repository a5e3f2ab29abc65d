// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "transport/transport.h"

namespace rocecoll {

class DatagramTransport;
struct Endpoint;

// The owner's handle for a connection over datagrams.
class DatagramLink final : public Link {
 public:
  DatagramLink(DatagramTransport& transport, Endpoint& endpoint)
      : transport_(transport), endpoint_(endpoint) {}

  LinkId id() const override;
  bool send_frame(const FrameBytes& frame) override;
  uint64_t unsent_frames() const override;
  bool write(const RemoteSlice& to, LocalSlice from, uint32_t token) override;
  RemoteSlice expose(LocalSlice into, uint32_t token) override;
  void unexpose(const RemoteSlice& slice) override;
  void close(const Status& why) override;
  const Status& status() const override { return status_; }
  void vouch(Instant now) override;
  std::optional<LinkContact> contact() const override;
  std::vector<PathStats> path_stats() const override;

 private:
  friend class DatagramTransport;

  DatagramTransport& transport_;
  Endpoint& endpoint_;
  Status status_;  // set when Down is polled
};

}  // namespace rocecoll
