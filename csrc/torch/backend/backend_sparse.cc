// SPDX-License-Identifier: Apache-2.0
// all_reduce of sparse tensors.
#include <ATen/core/grad_mode.h>

#include <utility>

#include "torch/backend/arguments.h"
#include "torch/backend/backend.h"
#include "torch/tensors/sparse_reduction.h"

namespace rocecoll::torch_adapter {

using c10d::OpType;

Backend::WorkPtr Backend::allreduce_sparse(Tensors& tensors,
                                           const c10d::AllreduceOptions& options) {
  constexpr const char* kFunction = "allreduce";
  if (tensors.empty()) Refuse(kFunction, "requires non-empty tensor list");
  if (tensors.size() != 1) Refuse(kFunction, "requires a single-element tensor list");
  const at::Tensor& tensor = tensors[0];
  if (!tensor.is_sparse()) {
    Refuse(kFunction, c10::str("unsupported layout ", tensor.layout(),
                               ": only strided and sparse COO tensors are supported"));
  }
  if (tensor.device().type() != at::kCPU) {
    Refuse(kFunction,
           "invalid tensor type: sparse tensors must be on the CPU, got " + tensor.device().str());
  }
  if (options.reduceOp != c10d::ReduceOp::SUM) {
    Refuse(kFunction,
           "unsupported reduction operation (allreduce of sparse tensors only works with "
           "ReduceOp.SUM)");
  }
  GroupView view{runtime_, group_, static_cast<Rank>(rank_), ranks(), Duration{0}};
  if (options.timeout > std::chrono::milliseconds(0)) view.timeout = Saturated(options.timeout);
  const at::NoGradGuard no_grad;
  auto reduction = std::make_shared<SparseReduction>(std::move(view), tensor);
  OperationPtr first = reduction->begin();
  OperationSpec spec = make_spec(Collective::kAllreduce, options.timeout);
  spec.type = ToDataType(tensor.scalar_type());
  auto work = make_work({.type = OpType::ALLREDUCE,
                         .title = "rocecoll:sparse_all_reduce",
                         .inputs = tensors,
                         .results = tensors,
                         .asynchronous = options.asyncOp},
                        {std::move(spec)});
  Work::Run(group_, work, std::move(first), *sparse_steps_, [reduction, tensor] {
    const at::NoGradGuard no_grad_here;
    at::Tensor(tensor).copy_(reduction->finish());
  });
  return work;
}

}  // namespace rocecoll::torch_adapter
