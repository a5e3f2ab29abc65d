// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace rocecoll {

// Which device is used, and how its packets travel.
struct RdmaOptions {
  // NCCL's grammar: names or prefixes of devices with an optional port, separated by commas;
  // ^ excludes, = asks for whole names: "mlx5", "=mlx5_0:1,mlx5_1:1", "^rxe0". Empty: any.
  std::string hca = "";
  bool software = true;          // use software devices (Soft-RoCE) even if not named
  std::string host = "";         // numeric address of this process; chooses among equal ports
  uint32_t local_rank = 0;       // among the host's processes, which share out equal ports
  uint32_t local_ranks = 0;      // how many processes that are; 0: unknown
  std::string accelerator = "";  // PCI address of the process's accelerator; empty: unknown
  int gid_index = -1;            // -1: the best RoCE v2 entry
  uint8_t traffic_class = 0;     // DSCP and ECN bits of the packets
  uint8_t service_level = 0;     // 0..7
  uint8_t timeout = 15;          // acknowledgement timeout, 4.096 us * 2^timeout; 134 ms
  uint8_t retry_count = 6;       // 0..7. Soft-RoCE takes 7 to mean "for ever"
  uint16_t pkey_index = 0;
  size_t max_mtu_bytes = 4096;  // cap of the path MTU
  bool extensions = true;       // use what two devices of one make can do beyond the standard
};

}  // namespace rocecoll
