// SPDX-License-Identifier: Apache-2.0
// Describes in words what the verbs report.
#pragma once

#include <infiniband/verbs.h>

#include <string>

#include "base/status.h"
#include "transport/rdma.h"

namespace rocecoll {

// The error number behind the result of a call that returns one; some providers return it negated.
constexpr int ErrorNumber(int returned) { return returned < 0 ? -returned : returned; }

// Makes a kNetwork status: "rxe0: cannot make a queue pair: Cannot allocate memory", with the cure
// if one is known.
Status VerbsError(const std::string& device, const std::string& what, int returned);

CompletionStatus ToCompletionStatus(ibv_wc_status status);
// A static text: what happened and what usually causes it.
const char* ToText(ibv_wc_status status);
const char* ToText(ibv_event_type event);

}  // namespace rocecoll
