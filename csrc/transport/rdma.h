// SPDX-License-Identifier: Apache-2.0
// Reliable-connection queue pairs of one port of one RDMA device, as in the verbs, in plain
// structs. The rc transport is written against this; the verbs plug-in implements it with
// libibverbs, the simulator in virtual time. One completion queue serves all queue pairs, and so
// does one receive queue where the device can share one. Used by one thread at a time; nothing
// waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "transport/address.h"
#include "transport/rdma_options.h"  // which device is opened
#include "transport/wait_handle.h"

namespace rocecoll {

struct RdmaLimits {
  size_t mtu_bytes = 0;         // active MTU of the port, capped by the options
  size_t max_inline_bytes = 0;  // largest payload that a send request can contain
  size_t max_message_bytes = 0;
  uint64_t max_region_bytes = UINT64_MAX;      // of one registration
  uint64_t max_registered_bytes = UINT64_MAX;  // of all, as far as is known
  uint32_t max_send_requests = 0;              // outstanding on one queue pair
  bool shared_receives = true;        // one receive queue for all queue pairs, or one for each
  uint32_t max_receive_requests = 0;  // outstanding in one receive queue
};

// At most this many receive requests are posted for each queue pair, into whatever queue: the
// completion queue has room for no more.
inline constexpr uint32_t kMaxReceivesPerQueuePair = 32;

// Request ids are below this: the device uses the top bit.
inline constexpr uint64_t kRequestIdLimit = uint64_t{1} << 63;

// Registered memory. Its keys are valid until deregister() returns.
struct MemoryRegion {
  uint64_t handle = 0;  // the device's own bookkeeping
  uint32_t local_key = 0;
  uint32_t remote_key = 0;
};

enum class RemoteAccess : uint8_t { kNone, kWrite };

struct SendRequest {
  enum class Kind : uint8_t { kSend, kWrite, kWriteWithImmediate };
  Kind kind = Kind::kSend;
  // Copies the payload while posting (at most max_inline_bytes); local_key is ignored.
  bool inlined = false;
  // Requests a completion on success. A failed or flushed request always completes.
  bool signaled = false;
  uint32_t local_key = 0;
  uint64_t id = 0;                     // returned in the completion
  std::span<const std::byte> payload;  // lent until this or a later request has completed
  uint64_t remote_address = 0;         // of writes
  uint32_t remote_key = 0;
  uint32_t immediate = 0;  // takes one receive request of the peer, as kSend does
};

struct ReceiveRequest {
  uint64_t id = 0;
  std::span<std::byte> buffer;  // lent until its completion
  uint32_t local_key = 0;
};

enum class CompletionStatus : uint8_t {
  kSuccess,
  // The queue pair had failed before this request was served. Some devices (Soft-RoCE) also report
  // a request that they could not send themselves as flushed.
  kFlushed,
  kRetryExceeded,     // no acknowledgement: the peer's host, its queue pair or the path is gone
  kReceiverNotReady,  // the peer had no receive request for too long
  kAccessDenied,      // the peer refused the remote address or key
  kFailed,            // everything else; `text` says what
};

// No queue pair has this number.
inline constexpr uint32_t kNoQueuePair = 0;

struct WorkCompletion {
  enum class Kind : uint8_t { kSend, kReceive, kReceiveImmediate, kConnect };
  Kind kind = Kind::kSend;  // kSend also stands for writes; of failed receives kReceive
  CompletionStatus status = CompletionStatus::kSuccess;
  // number() of the queue pair it happened on; kNoQueuePair once that is destroyed, because another
  // one may have its number by then.
  uint32_t queue_pair = kNoQueuePair;
  uint32_t bytes = 0;  // received
  uint32_t immediate = 0;
  uint64_t id = 0;
  const char* text = "";  // the status in words: static, or owned by the queue pair (kConnect)
};

// One end of a reliable connection. After a failed completion or fail() it is in the error state:
// everything outstanding completes as kFlushed, nothing more arrives, and no write of the peer
// lands.
class RdmaQueuePair {
 public:
  // Afterwards the device touches no memory any more. Receives that have completed are still
  // polled, because shared requests belong to the device. Those of its own receive queue may be,
  // too; ignore them.
  virtual ~RdmaQueuePair() = default;

  virtual uint32_t number() const = 0;
  // The argument of the peer's connect(): GID, number, first packet number, MTU.
  virtual Address address() const = 0;
  // Once per queue pair. Not ok if `peer` is not such an address. Otherwise connecting begins, and
  // takes as long as the system needs to find the peer's hardware address, a second or more if
  // nobody answers. The completion kConnect reports the result, unless fail() was called before.
  // Nothing is sent to the peer, so it may turn out to be unreachable later. Its requests are
  // served from that completion on, or slightly earlier; do not tell it of the connection before.
  virtual Status connect(const Address& peer) = 0;
  // Once connected, or failed. Accepts a prefix of the batch for which the send queue has room, and
  // returns its length; also 0 once the device refuses to work. On a failed queue pair some devices
  // accept and flush requests, others (bnxt_re of rdma-core before 47) refuse them.
  virtual size_t post(std::span<const SendRequest> batch) = 0;
  // Into its own receive queue, also before connect(), and only where none is shared. Returns the
  // length of the accepted prefix. Requests of a failed queue pair complete as kFlushed.
  virtual size_t post_receives(std::span<const ReceiveRequest> batch) = 0;
  // Moves to the error state. On return nothing from the peer lands any more, except one packet
  // that Soft-RoCE may be processing on another processor; it finishes before the queue pair is
  // destroyed or the memory deregistered.
  virtual void fail() = 0;
};

class RdmaDevice {
 public:
  virtual ~RdmaDevice() = default;

  virtual RdmaLimits limits() const = 0;
  // For people: "mlx5_0 port 1, GID 3 (192.0.2.1, RoCE v2)".
  virtual const std::string& description() const = 0;
  // kNetwork, with the cure, when the system refuses (locked-memory limit).
  virtual Result<MemoryRegion> register_memory(std::span<std::byte> memory,
                                               RemoteAccess access) = 0;
  virtual void deregister(const MemoryRegion& region) = 0;
  virtual Result<std::unique_ptr<RdmaQueuePair>> create_queue_pair() = 0;
  // Into the shared receive queue, if any. Returns the length of the accepted prefix.
  virtual size_t post_receives(std::span<const ReceiveRequest> batch) = 0;
  // Takes completions of all queue pairs, oldest first; those of one queue pair are in order.
  virtual size_t poll(std::span<WorkCompletion> completions) = 0;
  // Call before sleeping on the handle. False: completions may be there already; poll() first.
  virtual bool arm() = 0;
  virtual WaitHandle wait_handle() = 0;
  // Not ok while the port is down or once the device is gone; names the event that reported it.
  virtual Status health() = 0;
};

using RdmaDevices = std::vector<std::unique_ptr<RdmaDevice>>;

}  // namespace rocecoll
