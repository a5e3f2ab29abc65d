// SPDX-License-Identifier: Apache-2.0
// Transports over shared memory, as of several processes of this host, beside UDP on loopback.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "conformance/world.h"
#include "transport/datagram/datagram_transport.h"
#include "transport/datagram/udp/udp_port.h"
#include "transport/fast_paths/shm/shm_transport.h"
#include "transport/fast_paths/switching/switching_transport.h"

namespace rocecoll {

class ShmWorld : public RealTimeWorld {
 public:
  explicit ShmWorld(size_t count, const ConnectionOptions& control = {},
                    const ShmOptions& options = {}) {
    for (size_t i = 0; i < count; ++i) {
      auto port = UdpPort::Open({.host = "127.0.0.1"});
      EXPECT_TRUE(port.ok()) << port.status().message();
      auto both =
          MakeShmTransport(std::make_unique<DatagramTransport>(port.take(), control), options);
      transports_.push_back(both.get());
      add(std::move(both));
    }
  }

  bool carries(const LinkId& link) override { return links_on_path(link.local) > 0; }
  size_t links_on_path(size_t node) const { return transports_[node]->links_on_path(); }

 private:
  std::vector<SwitchingTransport*> transports_;
};

}  // namespace rocecoll
