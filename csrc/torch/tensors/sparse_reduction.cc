// SPDX-License-Identifier: Apache-2.0
#include "torch/tensors/sparse_reduction.h"

#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "torch/process/errors.h"
#include "torch/tensors/own_tags.h"

namespace rocecoll::torch_adapter {
namespace {

// A row: number of elements, then what all ranks must agree on, the sizes last.
enum Column : int64_t { kElements, kType, kSparseDims, kDenseDims, kSizes };
constexpr int64_t kMaxDims = 64;  // torch's own limit
constexpr int64_t kColumns = kSizes + kMaxDims;

at::Tensor ShapeOf(const at::Tensor& tensor) {
  at::Tensor row = at::zeros({kColumns}, at::kLong);
  auto* values = row.mutable_data_ptr<int64_t>();
  values[kElements] = tensor._nnz();
  values[kType] = static_cast<int64_t>(tensor.scalar_type());
  values[kSparseDims] = tensor.sparse_dim();
  values[kDenseDims] = tensor.dense_dim();
  for (int64_t i = 0; i < tensor.dim(); ++i) values[kSizes + i] = tensor.size(i);
  return row;
}

}  // namespace

SparseReduction::SparseReduction(GroupView group, const at::Tensor& tensor)
    : group_(std::move(group)), input_(tensor.coalesce()) {
  ToDataType(input_.scalar_type());  // refuses what cannot be sent
}

OperationPtr SparseReduction::submit(OperationSpec spec,
                                     const std::shared_ptr<Staging>& staging) const {
  spec.timeout = group_.timeout;
  auto operation = std::make_shared<Operation>(std::move(spec), staging);
  const Status status =
      ProgressOf(*group_.runtime).submit(group_.group, operation, Progress::Next::kGoesOn);
  if (!status.ok()) Throw(status);
  return operation;
}

void SparseReduction::wait(const OperationPtr& operation) const {
  const Status status = ProgressOf(*group_.runtime).wait(operation);
  if (!status.ok()) Throw(status);
}

OperationPtr SparseReduction::begin() {
  shapes_ = at::empty({group_.ranks, kColumns}, at::kLong);
  auto staging = std::make_shared<Staging>();
  OperationSpec spec;
  spec.collective = Collective::kAllgather;
  spec.type = DataType::kInt64;
  spec.input = EvenBuffer(ShapeOf(input_), 1, Access::kRead, *staging);
  spec.output = EvenBuffer(shapes_, group_.ranks, Access::kWrite, *staging);
  shapes_known_ = submit(std::move(spec), staging);
  return shapes_known_;
}

void SparseReduction::check_shapes() const {
  const at::Tensor own = shapes_[group_.rank].narrow(0, kType, kColumns - kType);
  for (Rank rank = 0; rank < group_.ranks; ++rank) {
    TORCH_CHECK(shapes_[rank].narrow(0, kType, kColumns - kType).equal(own),
                "rocecoll:sparse_all_reduce: Sparse dimensions do not match: rank ", rank,
                " of the group has a tensor of another shape, split of dimensions or type");
  }
}

void SparseReduction::exchange(const at::Tensor& tensor, Collective direction, Rank peer) {
  auto staging = std::make_shared<Staging>();
  OperationSpec spec;
  spec.collective = direction;
  spec.type = ToDataType(tensor.scalar_type());
  spec.root = peer;
  spec.user_tag = kSparseReductionTag;
  const bool sends = direction == Collective::kSend;
  OperationBuffer& buffer = sends ? spec.input : spec.output;
  buffer = EvenBuffer(tensor, 1, sends ? Access::kRead : Access::kWrite, *staging);
  messages_.push_back(submit(std::move(spec), staging));
}

at::Tensor SparseReduction::finish() {
  wait(shapes_known_);
  check_shapes();
  std::vector<at::Tensor> indices(group_.ranks);
  std::vector<at::Tensor> values(group_.ranks);
  indices[group_.rank] = input_._indices().contiguous();
  values[group_.rank] = input_._values().contiguous();
  const int64_t own_elements = input_._nnz();
  for (Rank distance = 1; distance < group_.ranks; ++distance) {
    const Rank from = (group_.rank + group_.ranks - distance) % group_.ranks;
    const Rank to = (group_.rank + distance) % group_.ranks;
    const int64_t elements = shapes_[from][kElements].item<int64_t>();
    std::vector<int64_t> value_sizes = values[group_.rank].sizes().vec();
    value_sizes[0] = elements;
    indices[from] = at::empty({input_.sparse_dim(), elements}, at::kLong);
    values[from] = at::empty(value_sizes, values[group_.rank].options());
    if (elements > 0) {
      exchange(indices[from], Collective::kRecv, from);
      exchange(values[from], Collective::kRecv, from);
    }
    if (own_elements > 0) {
      exchange(indices[group_.rank], Collective::kSend, to);
      exchange(values[group_.rank], Collective::kSend, to);
    }
  }
  for (const OperationPtr& message : messages_) wait(message);
  // One rank after the other, merging sorted indices: coalesce() of all at once would add what has
  // the same index in an order that depends on the processor's sort.
  at::Tensor sum;
  for (Rank rank = 0; rank < group_.ranks; ++rank) {
    const at::Tensor part = at::_sparse_coo_tensor_unsafe(
        indices[rank], values[rank], input_.sizes(), {}, /*is_coalesced=*/true);
    sum = sum.defined() ? sum.add(part) : part;
  }
  return sum.coalesce();
}

}  // namespace rocecoll::torch_adapter
