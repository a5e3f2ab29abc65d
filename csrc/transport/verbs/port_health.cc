// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/port_health.h"

#include "base/log.h"
#include "transport/verbs/verbs_error.h"

namespace rocecoll {

void PortHealth::on_event(ibv_event_type event) {
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
      // Its requests are flushed. Of a queue pair that had none this is the only word.
      Log(Severity::kInfo, text);
      break;
    default:
      break;  // concerns InfiniBand's subnet manager, or features that are not used
  }
}

void PortHealth::set_broken(const std::string& why) {
  if (broken_.empty()) broken_ = why;
}

Status PortHealth::status() const {
  std::string why = broken_;
  if (why.empty() && !up_) why = ToText(IBV_EVENT_PORT_ERR);
  if (why.empty() && !gid_present_) why = "its network interface has lost the address of the GID";
  return why.empty() ? Status() : Status(StatusCode::kNetwork, port_ + ": " + why);
}

}  // namespace rocecoll
