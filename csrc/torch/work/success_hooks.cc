// SPDX-License-Identifier: Apache-2.0
#include "torch/work/success_hooks.h"

#include <c10/util/Exception.h>

#include <exception>

#include "base/named_status.h"

namespace rocecoll::torch_adapter {

void SuccessHooks::run(uint64_t key, float duration_ms) const {
  hooks_.visit([&](int64_t id, const Hook& hook) {
    try {
      hook(key, duration_ms);
    } catch (const std::exception& error) {
      TORCH_WARN(kNamePrefix, "completion hook ", id, " raised: ", error.what());
    }
  });
}

}  // namespace rocecoll::torch_adapter
