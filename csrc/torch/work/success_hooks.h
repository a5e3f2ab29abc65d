// SPDX-License-Identifier: Apache-2.0
// Functions that are called for each work that succeeds (c10d's registerCompletionHook, from torch
// 2.15 on). torch's flight recorder learns by them which calls are over.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "torch/work/hook_table.h"

namespace rocecoll::torch_adapter {

class SuccessHooks {
 public:
  // `key` is that of the work, which took `duration_ms`. Hooks run on the thread that completes the
  // work, under a lock: c10d asks of them to be short and to call nothing of the backend.
  using Hook = std::function<void(uint64_t key, float duration_ms)>;

  // For one work. No other gets it, unlike the address of the work.
  static uint64_t NextKey() {
    static std::atomic<uint64_t> last{0};
    return ++last;
  }

  void set(int64_t id, Hook hook) { hooks_.set(id, std::move(hook)); }
  void remove(int64_t id) { hooks_.remove(id); }
  bool any() const { return hooks_.any(); }
  void run(uint64_t key, float duration_ms) const;

 private:
  HookTable<Hook> hooks_;
};

}  // namespace rocecoll::torch_adapter
