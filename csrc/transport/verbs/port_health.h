// SPDX-License-Identifier: Apache-2.0
// Whether a port can carry packets, from the events that its device reports.
#pragma once

#include <infiniband/verbs.h>

#include <string>

#include "base/status.h"

namespace rocecoll {

class PortHealth {
 public:
  // `port` is what messages call it.
  explicit PortHealth(std::string port) : port_(std::move(port)) {}

  // Events of this port, of the device, and of the queues that this process has made.
  void on_event(ibv_event_type event);
  // Whether the GID that queue pairs use still is in the port's table, at its place.
  void set_gid_present(bool present) { gid_present_ = present; }
  // The device has refused to work; stays.
  void set_broken(const std::string& why);

  // kNetwork while the port is down or its GID missing, and for good once something is broken.
  Status status() const;

 private:
  const std::string port_;
  bool up_ = true;
  bool gid_present_ = true;
  std::string broken_;  // the first reason
};

}  // namespace rocecoll
