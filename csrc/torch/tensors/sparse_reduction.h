// SPDX-License-Identifier: Apache-2.0
// The sum of the ranks' sparse COO tensors, which may have different numbers of elements.
//
// First an all_gather of what each rank has, begun with the call itself, so that it has its place
// among the group's collectives. Then every rank sends its indices and values to all others as
// messages: these match by peer and tag, whatever other operations are under way.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "engine/operations/operation.h"
#include "runtime/runtime_owner.h"
#include "torch/tensors/tensor_layout.h"

namespace rocecoll::torch_adapter {

// The group as an operation of several steps sees it; the backend may end meanwhile.
struct GroupView {
  std::shared_ptr<Runtime> runtime;
  GroupId group = 0;
  Rank rank = 0;
  uint32_t ranks = 1;
  Duration timeout{0};  // of each step; 0: the group's
};

class SparseReduction {
 public:
  SparseReduction(GroupView group, const at::Tensor& tensor);
  // Sends what this rank has; returns the all_gather. Throws, with nothing sent, when refused.
  OperationPtr begin();
  // Waits for the other ranks; once, after begin(), in the same order on every rank. The sum is
  // coalesced and has the same bits on every rank. Throws when the ranks' tensors do not fit or the
  // group fails.
  at::Tensor finish();

 private:
  OperationPtr submit(OperationSpec spec, const std::shared_ptr<Staging>& staging) const;
  void wait(const OperationPtr& operation) const;
  void exchange(const at::Tensor& tensor, Collective direction, Rank peer);
  void check_shapes() const;

  const GroupView group_;
  const at::Tensor input_;  // coalesced
  at::Tensor shapes_;       // one row a rank
  OperationPtr shapes_known_;
  std::vector<OperationPtr> messages_;
};

}  // namespace rocecoll::torch_adapter
