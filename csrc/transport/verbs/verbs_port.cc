// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/verbs_port.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "transport/verbs/device_list.h"
#include "transport/verbs/locked_memory.h"
#include "transport/verbs/verbs_error.h"

namespace rocecoll {
namespace {

// Lengths of requests are 32-bit, and no known device takes more than 2 GiB.
constexpr size_t kMaxMessageBytes = size_t{1} << 30;
constexpr uint8_t kHopLimit = 64;  // Linux's default for its own packets

// Otherwise a child of fork() shares the registered pages, and writing to one would take it away
// from the device. Kernels from 5.12 copy them at fork, and this call does nothing there.
void PrepareForFork() {
  static const int once = ibv_fork_init();
  static_cast<void>(once);  // too late if another library has already registered memory
}

}  // namespace

Result<std::vector<PortChoice>> VerbsPort::Choose(const RdmaOptions& options) {
  PrepareForFork();
  auto choices = ChoosePorts(ListDevices(), options, PlaceThisProcess(options));
  if (!choices.ok()) return choices.status();
  for (const PortChoice& choice : choices.value()) {
    if (!choice.why.empty()) Log(Severity::kInfo, ToText(choice) + " is chosen: " + choice.why);
  }
  return choices;
}

Result<std::unique_ptr<VerbsPort>> VerbsPort::Open(const RdmaOptions& options,
                                                   const PortChoice& choice) {
  Result<ContextHandle> context = OpenDevice(choice.device);
  if (!context.ok()) return context.status();
  std::unique_ptr<VerbsPort> port(new VerbsPort(options, choice, context.take()));
  Status status = port->prepare();
  if (!status.ok()) return status;
  return port;
}

VerbsPort::VerbsPort(const RdmaOptions& options, PortChoice choice, ContextHandle context)
    : options_(options),
      choice_(std::move(choice)),
      health_(choice_.device + " port " + std::to_string(choice_.port)),
      context_(std::move(context)) {}

Status VerbsPort::prepare() {
  if (const int failed = ibv_query_device(context(), &attributes_); failed != 0) {
    return error("read the attributes", failed);
  }
  ibv_port_attr port{};
  if (const int failed = ibv_query_port(context(), choice_.port, &port); failed != 0) {
    return error("read port " + std::to_string(choice_.port), failed);
  }
  max_message_bytes_ = std::min<size_t>(port.max_msg_sz, kMaxMessageBytes);
  gid_table_entries_ = static_cast<uint32_t>(std::max(port.gid_tbl_len, 0));
  if (port.pkey_tbl_len <= options_.pkey_index) {
    return Status(StatusCode::kInvalidArgument,
                  ToText(choice_) + ": partition key " + std::to_string(options_.pkey_index) +
                      " was asked for, the port has " + std::to_string(port.pkey_tbl_len));
  }
  protection_domain_.reset(ibv_alloc_pd(context()));
  if (protection_domain_ == nullptr) return error("make a protection domain", errno);
  wait_fd_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!wait_fd_.valid()) return error("make an epoll descriptor", errno);
  Status status = watch(context()->async_fd);
  // The state may have changed before this process listened for events.
  if (port.state != IBV_PORT_ACTIVE) health_.on_event(IBV_EVENT_PORT_ERR);
  look_for_gid();
  return status;
}

Status VerbsPort::watch(int descriptor) {
  const int flags = fcntl(descriptor, F_GETFL);
  epoll_event event{};
  event.events = EPOLLIN;
  if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) != 0 ||
      epoll_ctl(wait_fd_, EPOLL_CTL_ADD, descriptor, &event) != 0) {
    return error("listen for events", errno);
  }
  return {};
}

Status VerbsPort::error(const std::string& what, int number) const {
  return VerbsError(choice_.device, what, number);
}

ibv_ah_attr VerbsPort::path_to(const Gid& peer) const {
  ibv_ah_attr path{};
  std::memcpy(path.grh.dgid.raw, peer.bytes.data(), peer.bytes.size());
  path.grh.sgid_index = static_cast<uint8_t>(choice_.gid.index);
  path.grh.hop_limit = kHopLimit;
  path.grh.traffic_class = options_.traffic_class;
  path.sl = options_.service_level;
  path.is_global = 1;
  path.port_num = choice_.port;
  return path;
}

Result<ibv_mr*> VerbsPort::register_memory(std::span<std::byte> memory, int access) {
  ROCECOLL_CHECK(!memory.empty());
  const std::string problem =
      LockedMemoryProblem(ReadLockedMemoryLimit(), registered_bytes_, memory.size());
  if (!problem.empty()) return Status(StatusCode::kNetwork, choice_.device + ": " + problem);
  const auto attempt = [&](int flags) {
    return MemoryRegionHandle(
        ibv_reg_mr(protection_domain_.get(), memory.data(), memory.size(), flags));
  };
  MemoryRegionHandle region =
      attempt(access | (relaxed_ordering_ ? IBV_ACCESS_RELAXED_ORDERING : 0));
  if (region == nullptr && relaxed_ordering_ && ErrorNumber(errno) != ENOMEM) {
    region = attempt(access);
    if (region != nullptr) relaxed_ordering_ = false;
  }
  const bool for_peers = (access & IBV_ACCESS_REMOTE_WRITE) != 0;
  if (region == nullptr && ErrorNumber(errno) == EFAULT && !for_peers) {
    // Read-only memory, such as a mapped file, can still be sent from.
    region = attempt(access & ~IBV_ACCESS_LOCAL_WRITE);
  }
  if (region == nullptr) {
    return error("register " + std::to_string(memory.size()) + " bytes of memory", errno);
  }
  registered_bytes_ += memory.size();
  ibv_mr* key = region.get();
  regions_.emplace(key, std::move(region));
  return key;
}

void VerbsPort::deregister(ibv_mr* region) {
  const auto found = regions_.find(region);
  ROCECOLL_CHECK(found != regions_.end());
  registered_bytes_ -= region->length;
  regions_.erase(found);
}

void VerbsPort::take_events() {
  ibv_async_event event;
  while (ibv_get_async_event(context(), &event) == 0) {
    const ibv_event_type type = event.event_type;
    const bool of_a_port = type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE;
    const bool ours = !of_a_port || event.element.port_num == choice_.port;
    // This comes first, because destroying the object of an event waits for the acknowledgement.
    ibv_ack_async_event(&event);
    if (ours) health_.on_event(type);
    look_for_gid();
  }
}

// An address that is removed from its interface and added again may get another place, because the
// old place is not free while queue pairs refer to it.
void VerbsPort::look_for_gid() {
  bool present = has_gid_at(choice_.gid.index);
  for (uint32_t index = 0; !present && index < gid_table_entries_; ++index) {
    if (!has_gid_at(index)) continue;
    choice_.gid.index = index;
    ++gid_moves_;
    present = true;
    Log(Severity::kInfo, ToText(choice_) + ": the GID was at another index before");
  }
  health_.set_gid_present(present);
}

bool VerbsPort::has_gid_at(uint32_t index) const {
  ibv_gid_entry entry{};
  return ibv_query_gid_ex(context(), choice_.port, index, &entry, 0) == 0 &&
         entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
         std::memcmp(entry.gid.raw, choice_.gid.gid.bytes.data(), sizeof(entry.gid.raw)) == 0;
}

}  // namespace rocecoll
