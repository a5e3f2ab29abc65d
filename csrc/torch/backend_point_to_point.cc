// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks.
#include <utility>

#include "torch/arguments.h"
#include "torch/backend.h"

namespace rocecoll::torch_adapter {

using c10d::OpType;

Backend::WorkPtr Backend::point_to_point(Collective collective, Tensors& tensors, int peer,
                                         int tag) {
  const bool sends = collective == Collective::kSend;
  const char* function = sends ? "send" : "recv";
  const at::Tensor& tensor = Single(function, tensors);
  if (peer < 0 || peer >= size_) {
    Refuse(function, "invalid rank: " + std::to_string(peer));
  }
  if (peer == rank_) {
    Refuse(function, "rank " + std::to_string(peer) + " cannot exchange messages with itself");
  }
  if (tag < 0) Refuse(function, "invalid tag: " + std::to_string(tag));
  auto staging = std::make_shared<Staging>();
  OperationSpec spec = make_spec(collective, c10d::kUnsetTimeout);
  spec.type = ToDataType(tensor.scalar_type());
  spec.root = static_cast<Rank>(peer);
  spec.user_tag = static_cast<uint32_t>(tag);
  OperationBuffer& buffer = sends ? spec.input : spec.output;
  buffer = EvenBuffer(tensor, 1, sends ? Access::kRead : Access::kWrite, *staging);
  Work::Call call;
  call.type = sends ? OpType::SEND : OpType::RECV;
  call.title = sends ? "rocecoll:send" : "rocecoll:recv";
  call.inputs = call.results = tensors;
  if (!sends) call.source_rank = peer;
  return launch(std::move(call), {std::move(spec)}, staging);
}

Backend::WorkPtr Backend::send(Tensors& tensors, int to, int tag) {
  return point_to_point(Collective::kSend, tensors, to, tag);
}

Backend::WorkPtr Backend::recv(Tensors& tensors, int from, int tag) {
  return point_to_point(Collective::kRecv, tensors, from, tag);
}

Backend::WorkPtr Backend::recvAnysource(Tensors& /*tensors*/, int /*tag*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(false,
                              "ProcessGroupRocecoll::recvAnysource: receiving from any rank is not "
                              "supported, name the source rank");
}

}  // namespace rocecoll::torch_adapter
