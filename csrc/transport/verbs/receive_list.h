// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "transport/rdma.h"
#include "transport/verbs/handles.h"

namespace rocecoll {

// Marks receives in request ids, because the device does not say of a failed completion whether it
// is one.
inline constexpr uint64_t kReceiveBit = kRequestIdLimit;

// Hands the batch in lists to `post`, which calls ibv_post_recv() or ibv_post_srq_recv() on a
// queue. Returns the length of the accepted prefix; `failed` is what the last call returned.
template <typename Post>
size_t PostReceiveLists(std::span<const ReceiveRequest> batch, Post&& post, int& failed) {
  constexpr size_t kListRequests = 32;
  std::array<ibv_recv_wr, kListRequests> requests;
  std::array<ibv_sge, kListRequests> slices;
  failed = 0;
  size_t posted = 0;
  while (posted < batch.size()) {
    const auto list = batch.subspan(posted, std::min(kListRequests, batch.size() - posted));
    for (size_t i = 0; i < list.size(); ++i) {
      ROCECOLL_CHECK(list[i].id < kRequestIdLimit);
      slices[i] = {reinterpret_cast<uintptr_t>(list[i].buffer.data()),
                   static_cast<uint32_t>(list[i].buffer.size()), list[i].local_key};
      requests[i] = {.wr_id = list[i].id | kReceiveBit,
                     .next = nullptr,
                     .sg_list = &slices[i],
                     .num_sge = list[i].buffer.empty() ? 0 : 1};
      if (i > 0) requests[i - 1].next = &requests[i];
    }
    ibv_recv_wr* refused = nullptr;
    failed = post(requests.data(), &refused);
    if (failed != 0) {
      return posted + (refused == nullptr ? 0 : static_cast<size_t>(refused - requests.data()));
    }
    posted += list.size();
  }
  return posted;
}

}  // namespace rocecoll
