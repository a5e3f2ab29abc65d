// SPDX-License-Identifier: Apache-2.0
// What the verbs report, in words.
#pragma once

#include <infiniband/verbs.h>

#include <string>

#include "base/status.h"
#include "transport/rdma.h"

namespace rocecoll {

// Of what a call has returned that returns an error number; with some providers it is negative.
constexpr int ErrorNumber(int returned) { return returned < 0 ? -returned : returned; }

// kNetwork: "rxe0: cannot make a queue pair: Cannot allocate memory", with the cure if one is
// known.
Status VerbsError(const std::string& device, const std::string& what, int returned);

CompletionStatus ToCompletionStatus(ibv_wc_status status);
// Static, what happened and what usually causes it.
const char* ToText(ibv_wc_status status);
const char* ToText(ibv_event_type event);

}  // namespace rocecoll
