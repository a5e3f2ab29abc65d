// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/rc/rails.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rocecoll {
namespace {

RdmaLimits Least(const RdmaLimits& a, const RdmaLimits& b) {
  return {
      .mtu_bytes = std::min(a.mtu_bytes, b.mtu_bytes),
      .max_inline_bytes = std::min(a.max_inline_bytes, b.max_inline_bytes),
      .max_message_bytes = std::min(a.max_message_bytes, b.max_message_bytes),
      .max_region_bytes = std::min(a.max_region_bytes, b.max_region_bytes),
      .max_registered_bytes = std::min(a.max_registered_bytes, b.max_registered_bytes),
      .max_send_requests = std::min(a.max_send_requests, b.max_send_requests),
      .shared_receives = a.shared_receives && b.shared_receives,
      .max_receive_requests = std::min(a.max_receive_requests, b.max_receive_requests),
  };
}

}  // namespace

std::string Names(const RdmaDevices& devices, uint32_t which) {
  std::string names;
  for (size_t i = 0; i < devices.size(); ++i) {
    if ((which >> i & 1) == 0) continue;
    names += (names.empty() ? "" : " and ") + devices[i]->description();
  }
  return names;
}

Rails::Rails(RdmaDevices devices)
    : devices_(std::move(devices)), working_((Set{1} << devices_.size()) - 1) {
  ROCECOLL_CHECK(!devices_.empty() && devices_.size() <= RemoteSlice::kMaxPorts);
  limits_ = devices_.front()->limits();
  for (const auto& device : devices_) limits_ = Least(limits_, device->limits());
  limits_.max_registered_bytes /= devices_.size();  // each page is locked once per device
  description_ = describe(working_);
}

// A rail whose device refuses and is not healthy is left out from then on: a device that has died
// for good would otherwise keep the others from registering anything.
Result<RailRegion> Rails::register_memory(std::span<std::byte> memory, RemoteAccess access) {
  RailRegion region;
  for (size_t rail = 0; rail < count(); ++rail) {
    if ((gone_ >> rail & 1) != 0) continue;
    const auto made = devices_[rail]->register_memory(memory, access);
    if (made.ok()) {
      region.of[rail] = made.value();
      continue;
    }
    const Set left = ((Set{1} << count()) - 1) & ~(gone_ | Set{1} << rail);
    if (devices_[rail]->health().ok() || left == 0) {
      deregister(region);
      return made.status();
    }
    gone_ |= Set{1} << rail;
  }
  return region;
}

void Rails::deregister(const RailRegion& region) {
  for (size_t rail = 0; rail < count(); ++rail) {
    if (region.of[rail].handle != 0) devices_[rail]->deregister(region.of[rail]);
  }
}

Status Rails::look() {
  Status first;
  working_ = 0;
  for (size_t rail = 0; rail < count(); ++rail) {
    Status health = devices_[rail]->health();
    if (health.ok() && (gone_ >> rail & 1) != 0) {
      health = Status(StatusCode::kNetwork, devices_[rail]->description() +
                                                ": lacks memory that was registered meanwhile");
    }
    if (health.ok()) {
      working_ |= Set{1} << rail;
    } else {
      problems_[rail] = health.message();
      if (first.ok()) first = std::move(health);
    }
  }
  return working_ == 0 ? first : Status();
}

WaitHandle Rails::wait_handle() const {
  WaitHandle all;
  for (const auto& device : devices_) all = all.joined(device->wait_handle());
  return all;
}

bool Rails::arm() const {
  bool quiet = true;
  for (const auto& device : devices_) quiet = device->arm() && quiet;
  return quiet;
}

}  // namespace rocecoll
