// SPDX-License-Identifier: Apache-2.0
// Owners of the objects that libibverbs hands out. An object made from another one must be
// destroyed before it, so declare them in the order in which they are made. None of the calls can
// block: events are acknowledged when they are read.
#pragma once

#include <infiniband/verbs.h>

#include <memory>

namespace rocecoll {

template <auto kDestroy>
struct VerbsDeleter {
  template <typename T>
  void operator()(T* object) const {
    // If the call is refused, the kernel keeps the object and frees it with the context.
    static_cast<void>(kDestroy(object));
  }
};
template <typename T, auto kDestroy>
using VerbsHandle = std::unique_ptr<T, VerbsDeleter<kDestroy>>;

using ContextHandle = VerbsHandle<ibv_context, ibv_close_device>;
using ProtectionDomainHandle = VerbsHandle<ibv_pd, ibv_dealloc_pd>;
using CompletionChannelHandle = VerbsHandle<ibv_comp_channel, ibv_destroy_comp_channel>;
using CompletionQueueHandle = VerbsHandle<ibv_cq, ibv_destroy_cq>;
using SharedReceiveQueueHandle = VerbsHandle<ibv_srq, ibv_destroy_srq>;
using QueuePairHandle = VerbsHandle<ibv_qp, ibv_destroy_qp>;
using MemoryRegionHandle = VerbsHandle<ibv_mr, ibv_dereg_mr>;
using AddressHandle = VerbsHandle<ibv_ah, ibv_destroy_ah>;

}  // namespace rocecoll
