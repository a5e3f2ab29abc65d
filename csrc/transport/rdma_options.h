// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace rocecoll {

// Which device, and how its packets travel.
struct RdmaOptions {
  // NCCL's grammar: names or prefixes of devices with an optional port, separated by commas;
  // ^ excludes, = asks for whole names: "mlx5", "=mlx5_0:1,mlx5_1:1", "^rxe0". Empty: any.
  std::string hca = "";
  bool software = true;          // also programs that play a device (Soft-RoCE) without a name
  std::string host = "";         // numeric address of this process, by which equal ports are told
  uint32_t local_rank = 0;       // among the processes of this host, to whom equal ports are dealt
  uint32_t local_ranks = 0;      // how many these are; 0: not known
  std::string accelerator = "";  // PCI address of the one that it computes on; empty: not known
  int gid_index = -1;            // -1: the best RoCE v2 entry
  uint8_t traffic_class = 0;     // DSCP and ECN bits of the packets
  uint8_t service_level = 0;     // 0..7
  uint8_t timeout = 15;          // acknowledgement timeout, 4.096 us * 2^timeout; 134 ms
  uint8_t retry_count = 6;       // 0..7. Soft-RoCE takes 7 as "for ever"
  uint16_t pkey_index = 0;
  size_t max_mtu_bytes = 4096;  // cap of the path MTU
  bool extensions = true;       // what two devices of one make can do beyond the specification
};

}  // namespace rocecoll
