// SPDX-License-Identifier: Apache-2.0
// Whether a port can carry packets, as told by the events that its device reports.
#pragma once

#include <infiniband/verbs.h>

#include <string>

#include "base/log.h"
#include "base/status.h"
#include "transport/verbs/verbs_error.h"

namespace rocecoll {

class PortHealth {
 public:
  // `port` is the name of the port in messages.
  explicit PortHealth(std::string port) : port_(std::move(port)) {}

  // Handles events of this port, of the device, and of the queues that this process has made.
  void on_event(ibv_event_type event) {
    const std::string text = port_ + ": " + ToText(event);
    switch (event) {
      case IBV_EVENT_PORT_ERR:
        up_ = false;
        Log(Severity::kInfo, text);
        break;
      case IBV_EVENT_PORT_ACTIVE:
        up_ = true;
        Log(Severity::kInfo, text);
        break;
      case IBV_EVENT_DEVICE_FATAL:
      case IBV_EVENT_CQ_ERR:
      case IBV_EVENT_SRQ_ERR:
      case IBV_EVENT_WQ_FATAL:
        set_broken(ToText(event));
        Log(Severity::kWarning, text);
        break;
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
        // The requests of the queue pair are flushed. If it had none, this event is the only sign.
        Log(Severity::kInfo, text);
        break;
      default:
        break;  // concerns InfiniBand's subnet manager, or features that are not used
    }
  }
  // Whether the GID that queue pairs use is still in the port's table, at its place.
  void set_gid_present(bool present) { gid_present_ = present; }
  // The device has refused to work. This state is permanent.
  void set_broken(const std::string& why) {
    if (broken_.empty()) broken_ = why;
  }

  // Returns kNetwork while the port is down or its GID is missing, and permanently once something
  // is broken.
  Status status() const {
    std::string why = broken_;
    if (why.empty() && !up_) why = ToText(IBV_EVENT_PORT_ERR);
    if (why.empty() && !gid_present_) why = "its network interface has lost the address of the GID";
    return why.empty() ? Status() : Status(StatusCode::kNetwork, port_ + ": " + why);
  }

 private:
  const std::string port_;
  bool up_ = true;
  bool gid_present_ = true;
  std::string broken_;  // the first reason
};

}  // namespace rocecoll
