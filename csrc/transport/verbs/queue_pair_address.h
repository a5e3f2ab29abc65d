// SPDX-License-Identifier: Apache-2.0
// Addresses of queue pairs: opaque bytes to the layers above, the attributes that the verbs need
// below.
//
//   offset  size  field
//        0     1  'C' for a connected queue pair, 'D' for one of datagrams
//        1     1  version of this layout, 2
//        2     2  path MTU in bytes: 256, 512, 1024, 2048 or 4096
//        4     4  queue pair number, 24 bits
//        8     4  connected: first packet number, 24 bits; datagrams: queue key
//       12    16  GID
//       28     4  vendor of the extensions (ECE), 0 for datagrams
//       32     4  extensions
//
// Numbers are little endian.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "transport/address.h"
#include "transport/verbs/connection_extensions.h"
#include "transport/verbs/gid.h"

namespace rocecoll {

struct QueuePairAddress {
  enum class Kind : uint8_t { kConnected = 'C', kDatagrams = 'D' };
  Kind kind = Kind::kConnected;
  size_t mtu_bytes = 0;
  uint32_t number = 0;
  uint32_t packet_number_or_key = 0;
  Gid gid;
  ConnectionExtensions extensions = {};  // for a connected queue pair
};

Address ToAddress(const QueuePairAddress& address);
// Returns kInvalidArgument for anything that is not an address of that kind.
Result<QueuePairAddress> ToQueuePairAddress(const Address& address, QueuePairAddress::Kind kind);

// `bytes` must be a size that such an address may have.
ibv_mtu ToVerbsMtu(size_t bytes);

}  // namespace rocecoll
