// SPDX-License-Identifier: Apache-2.0
#include "torch/work/abort_hooks.h"

#include <c10/util/Exception.h>

#include <exception>

#include "base/named_status.h"
#include "torch/process/completion_pool.h"

namespace rocecoll::torch_adapter {

void AbortHooks::on_failed_call(const std::shared_ptr<Runtime>& runtime, GroupId group) {
  if (!hooks_.any()) return;
  CompletionPool::instance().run([self = shared_from_this(), runtime, group] {
    if (runtime->forked() || runtime->progress().group_status(group).ok()) return;
    self->run(group);
  });
}

void AbortHooks::run(GroupId group) {
  if (told_.exchange(group) == group) return;
  for (const auto& [id, hook] : hooks_.copy()) {
    try {
      (*hook)();
    } catch (const std::exception& error) {
      TORCH_WARN(kNamePrefix, "abort hook ", id, " raised: ", error.what());
    }
  }
}

}  // namespace rocecoll::torch_adapter
