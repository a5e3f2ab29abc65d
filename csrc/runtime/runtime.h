// SPDX-License-Identifier: Apache-2.0
// From options to a running engine: opens the transport, starts the progress thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/engine.h"
#include "engine/progress/progress.h"
#include "runtime/option_value.h"
#include "transport/datagram/reliability/connection.h"
#include "transport/fast_paths/rc/rc_options.h"
#include "transport/rdma_options.h"

namespace rocecoll {

// MakeRuntimeOptions() of option_table.h sets these fields by name.
struct RuntimeOptions {
  std::string transport = "auto";      // as option_table.cc names them
  bool roce_wanted = false;            // the user named auto, or a device
  bool shm = false;                    // between processes that reach each other over loopback
  std::string host = "127.0.0.1";      // numeric address that peers use; the socket binds to all
  PortRange port_range;                // any port
  uint32_t local_ranks = 0;            // on this host; 0: not known
  bool one_host = false;               // the group is on this host alone, as far as is known
  size_t max_datagram_bytes = 65'000;  // cap; the route's MTU may be less
  size_t socket_buffer_bytes = 4 * 1024 * 1024;
  bool segmentation_offload = true;  // UDP_SEGMENT and UDP_GRO where the kernel has them
  uint8_t dscp = 0;                  // of UDP packets
  bool ecn = true;                   // queues may mark UDP packets
  FaultOptions fault;                // of what leaves through UDP sockets and UD queue pairs
  RdmaOptions rdma;                  // but for `host`, which is the one above
  RcOptions rc;                      // but for `expected`; ud has the same `failover`
  std::string plugin;                // path; empty: librocecoll_verbs.so beside the core library
  ConnectionOptions connection;
  // Under auto, of peers that RoCE may carry; none: that of `connection`.
  std::optional<Duration> roce_peer_timeout;
  size_t staging_bytes = 64 * 1024 * 1024;  // pinned memory for each accelerator
  MessengerOptions messenger;
  EngineOptions engine;
  ProgressOptions progress;
};

// What a process tells its peers about its RoCE before they open a link.
struct RoceUse {
  std::string port;     // the port it has opened; empty: none
  std::string problem;  // why there is none, if one was looked for
};

// Starts one more engine in this process, as tests with several ranks do. The process's own engine
// belongs to runtime_owner.h.
Result<std::unique_ptr<Progress>> StartRuntime(const RuntimeOptions& options,
                                               RoceUse* roce = nullptr);
// Turns "192.0.2.1:4000" or "[2001:db8::1]:4000" into what Transport::open takes. A process is
// reached at its UDP port, whatever carries the data.
Result<Address> ParseAddress(std::string_view text);

}  // namespace rocecoll
