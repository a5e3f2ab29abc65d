// SPDX-License-Identifier: Apache-2.0
// The chosen port of a device, opened: what connected queue pairs and datagrams share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/descriptor.h"
#include "base/status.h"
#include "transport/rdma.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/port_choice.h"
#include "transport/verbs/port_health.h"
#include "transport/wait_handle.h"

namespace rocecoll {

class VerbsPort {
 public:
  // Chooses among the system's devices, and logs why.
  static Result<std::vector<PortChoice>> Choose(const RdmaOptions& options);
  static Result<std::unique_ptr<VerbsPort>> Open(const RdmaOptions& options,
                                                 const PortChoice& choice);
  VerbsPort(const VerbsPort&) = delete;
  VerbsPort& operator=(const VerbsPort&) = delete;

  ibv_context* context() const { return context_.get(); }
  ibv_pd* protection_domain() const { return protection_domain_.get(); }
  const RdmaOptions& options() const { return options_; }
  const ibv_device_attr& attributes() const { return attributes_; }
  const PortChoice& choice() const { return choice_; }
  size_t max_message_bytes() const { return max_message_bytes_; }

  // The way to a peer, for queue pairs and address handles. It changes with each move of the GID.
  ibv_ah_attr path_to(const Gid& peer) const;
  // How often the GID has reappeared at another place in the port's table.
  uint32_t gid_moves() const { return gid_moves_; }
  // An error of the verbs on this device: "rxe0: cannot ...".
  Status error(const std::string& what, int number) const;

  // `access` has the flags of ibv_reg_mr(). The region is valid until deregister() or the end of
  // this object.
  Result<ibv_mr*> register_memory(std::span<std::byte> memory, int access);
  void deregister(ibv_mr* region);

  // Readable while the device has an event, or while one of the watched descriptors is readable.
  WaitHandle wait_handle() const { return WaitHandle(wait_fd_); }
  Status watch(int descriptor);
  // Takes the waiting events; costs one system call if there are none.
  void take_events();
  PortHealth& health() { return health_; }

 private:
  VerbsPort(const RdmaOptions& options, PortChoice choice, ContextHandle context);
  Status prepare();
  // Finds the place of the GID in the port's table, and whether the GID is there.
  void look_for_gid();
  bool has_gid_at(uint32_t index) const;

  const RdmaOptions options_;
  PortChoice choice_;
  uint32_t gid_table_entries_ = 0;
  uint32_t gid_moves_ = 0;
  PortHealth health_;
  ibv_device_attr attributes_{};
  size_t max_message_bytes_ = 0;
  bool relaxed_ordering_ = true;  // until the device refuses it
  uint64_t registered_bytes_ = 0;
  Descriptor wait_fd_;
  ContextHandle context_;
  ProtectionDomainHandle protection_domain_;
  std::unordered_map<ibv_mr*, MemoryRegionHandle> regions_;
};

}  // namespace rocecoll
