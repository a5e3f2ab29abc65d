// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/verbs_error.h"

#include <cerrno>

#include "base/system_error.h"
#include "transport/verbs/locked_memory.h"

namespace rocecoll {

Status VerbsError(const std::string& device, const std::string& what, int returned) {
  const int error = ErrorNumber(returned);
  std::string text = device + ": cannot " + what + ": " + SystemErrorText(error);
  if (error == ENOMEM) {
    text += "; the device or the system has no more of it, or " + LockedMemoryCure();
  } else if (error == EACCES || error == EPERM || error == ENOENT) {
    // libibverbs reports ENOENT if it may not open the file, because it then looks for other files.
    text +=
        "; the user needs read and write permission on /dev/infiniband/uverbs*, and a container "
        "these files";
  }
  return Status(StatusCode::kNetwork, std::move(text));
}

CompletionStatus ToCompletionStatus(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return CompletionStatus::kSuccess;
    case IBV_WC_WR_FLUSH_ERR:
      return CompletionStatus::kFlushed;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return CompletionStatus::kRetryExceeded;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return CompletionStatus::kReceiverNotReady;
    case IBV_WC_REM_ACCESS_ERR:
      return CompletionStatus::kAccessDenied;
    default:
      return CompletionStatus::kFailed;
  }
}

const char* ToText(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return "success";
    case IBV_WC_LOC_LEN_ERR:
      return "local length error: a receive buffer was too short, or a message too long";
    case IBV_WC_LOC_QP_OP_ERR:
      return "local queue pair error: the device could not carry the request out";
    case IBV_WC_LOC_EEC_OP_ERR:
      return "local end-to-end context error";
    case IBV_WC_LOC_PROT_ERR:
      return "local protection error: the request's own memory is not registered for it";
    case IBV_WC_WR_FLUSH_ERR:
      return "flushed: the queue pair had failed before";
    case IBV_WC_MW_BIND_ERR:
      return "memory window bind error";
    case IBV_WC_BAD_RESP_ERR:
      return "bad response: the peer's device answered with something unexpected";
    case IBV_WC_LOC_ACCESS_ERR:
      return "local access error: the peer wrote where this process does not allow it";
    case IBV_WC_REM_INV_REQ_ERR:
      return "remote invalid request: the peer's device refused it, such as a message longer than "
             "the receive buffer";
    case IBV_WC_REM_ACCESS_ERR:
      return "remote access error: the peer does not allow access to that memory";
    case IBV_WC_REM_OP_ERR:
      return "remote operation error: the peer's device could not carry the request out";
    case IBV_WC_RETRY_EXC_ERR:
      return "retries exceeded: the peer does not answer; its host, its process or the path is "
             "gone";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "receiver not ready: the peer had no receive buffer for too long";
    case IBV_WC_LOC_RDD_VIOL_ERR:
      return "local reliable datagram domain violation";
    case IBV_WC_REM_INV_RD_REQ_ERR:
      return "remote invalid reliable datagram request";
    case IBV_WC_REM_ABORT_ERR:
      return "remote abort: the peer's device ended the operation";
    case IBV_WC_INV_EECN_ERR:
      return "invalid end-to-end context number";
    case IBV_WC_INV_EEC_STATE_ERR:
      return "invalid end-to-end context state";
    case IBV_WC_FATAL_ERR:
      return "fatal error of the device";
    case IBV_WC_RESP_TIMEOUT_ERR:
      return "response timeout: the peer's device did not answer";
    case IBV_WC_GENERAL_ERR:
      return "general error of the transport";
    case IBV_WC_TM_ERR:
      return "tag matching error";
    case IBV_WC_TM_RNDV_INCOMPLETE:
      return "tag matching rendezvous incomplete";
  }
  return "a status that this version does not know";
}

const char* ToText(ibv_event_type event) {
  switch (event) {
    case IBV_EVENT_CQ_ERR:
      return "the completion queue has failed";
    case IBV_EVENT_QP_FATAL:
      return "a queue pair has failed";
    case IBV_EVENT_QP_REQ_ERR:
      return "a queue pair has failed: the peer sent an invalid request";
    case IBV_EVENT_QP_ACCESS_ERR:
      return "a queue pair has failed: the peer asked for access that is not allowed";
    case IBV_EVENT_COMM_EST:
      return "the first packet of a connection has arrived";
    case IBV_EVENT_SQ_DRAINED:
      return "a send queue is drained";
    case IBV_EVENT_PATH_MIG:
      return "a connection has migrated to its other path";
    case IBV_EVENT_PATH_MIG_ERR:
      return "a connection could not migrate to its other path";
    case IBV_EVENT_DEVICE_FATAL:
      return "the device has failed or was taken away";
    case IBV_EVENT_PORT_ACTIVE:
      return "the port is up";
    case IBV_EVENT_PORT_ERR:
      return "the port is down";
    case IBV_EVENT_LID_CHANGE:
      return "the port's LID has changed";
    case IBV_EVENT_PKEY_CHANGE:
      return "the port's partition keys have changed";
    case IBV_EVENT_SM_CHANGE:
      return "the subnet manager has changed";
    case IBV_EVENT_SRQ_ERR:
      return "the shared receive queue has failed";
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return "the shared receive queue has reached its limit";
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return "a failed queue pair takes no more receive requests";
    case IBV_EVENT_CLIENT_REREGISTER:
      return "the subnet manager asks for registrations";
    case IBV_EVENT_GID_CHANGE:
      return "the port's addresses have changed";
    case IBV_EVENT_WQ_FATAL:
      return "a work queue has failed";
  }
  return "an event that this version does not know";
}

}  // namespace rocecoll
