// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks.
#include <utility>

#include "torch/backend/arguments.h"
#include "torch/backend/backend.h"

namespace rocecoll::torch_adapter {

using c10d::OpType;

Backend::WorkPtr Backend::point_to_point(OpType type, const char* title, Tensors& tensors,
                                         std::optional<int> peer, int tag) {
  const bool sends = type == OpType::SEND;
  const char* function = sends ? "send" : peer ? "recv" : "recvAnysource";
  if (tensors.size() != 1) Refuse(function, "takes a single tensor");
  const at::Tensor& tensor = Single(function, tensors);
  if (peer) {
    if (*peer < 0 || *peer >= size_) Refuse(function, "invalid rank: " + std::to_string(*peer));
    if (*peer == rank_) {
      Refuse(function, "rank " + std::to_string(*peer) + " cannot exchange messages with itself");
    }
  } else if (size_ == 1) {
    Refuse(function, "there is no other rank in the group");
  }
  if (tag < 0)
    Refuse(function, "invalid tag: " + std::to_string(tag) + ". Tag must be nonnegative");
  auto staging = std::make_shared<Staging>();
  OperationSpec spec =
      make_spec(sends ? Collective::kSend : Collective::kRecv, c10d::kUnsetTimeout);
  spec.type = ToDataType(tensor.scalar_type());
  if (peer) spec.root = static_cast<Rank>(*peer);
  spec.any_source = !peer;
  spec.user_tag = static_cast<uint32_t>(tag);
  OperationBuffer& buffer = sends ? spec.input : spec.output;
  buffer = EvenBuffer(tensor, 1, sends ? Access::kRead : Access::kWrite, *staging);
  Work::Call call;
  call.type = type;
  call.title = title;
  call.inputs = call.results = tensors;
  if (type == OpType::RECV) call.source_rank = *peer;
  return launch(std::move(call), {std::move(spec)}, staging);
}

Backend::WorkPtr Backend::send(Tensors& tensors, int to, int tag) {
  return point_to_point(OpType::SEND, "rocecoll:send", tensors, to, tag);
}

Backend::WorkPtr Backend::recv(Tensors& tensors, int from, int tag) {
  return point_to_point(OpType::RECV, "rocecoll:recv", tensors, from, tag);
}

Backend::WorkPtr Backend::recvAnysource(Tensors& tensors, int tag) {
  return point_to_point(OpType::RECVANYSOURCE, "rocecoll:recvAnySource", tensors, std::nullopt,
                        tag);
}

}  // namespace rocecoll::torch_adapter
