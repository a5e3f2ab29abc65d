// SPDX-License-Identifier: Apache-2.0
// How a call is seen: its sequence number, the profiler's event, the recorder's entry.
#include <tuple>

#include "torch/backend/backend.h"
#include "torch/interface/c10d_interface.h"
#include "torch/observing/recorder.h"

namespace rocecoll::torch_adapter {
namespace {

constexpr std::string_view kPrefix = "rocecoll:";

// The root, or the peer.
bool NamesRank(Collective collective) { return IsRooted(collective) || IsPointToPoint(collective); }

uint64_t Describe(const std::vector<at::Tensor>& tensors, std::vector<RecordedTensor>& described) {
  uint64_t bytes = 0;
  described.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    const auto sizes = tensor.sizes();
    described.push_back({{sizes.begin(), sizes.end()}, tensor.scalar_type(), tensor.device()});
    bytes += static_cast<uint64_t>(tensor.numel()) * tensor.element_size();
  }
  return bytes;
}

template <typename Count>
std::vector<Count> Splits(const OperationSpec& spec, const Partition& partition) {
  std::vector<Count> splits;
  if (spec.collective != Collective::kAlltoall || spec.uniform) return splits;
  for (uint32_t i = 0; i < partition.blocks(); ++i) {
    splits.push_back(static_cast<Count>(partition.block(i).count));
  }
  return splits;
}

int64_t Elements(const std::vector<at::Tensor>& tensors) {
  int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) elements += tensor.numel();
  return elements;
}

// The distance between neighbours, 0 if it is not the same everywhere.
int Stride(const std::vector<Rank>& ranks) {
  if (ranks.size() < 2) return 1;
  const auto stride = static_cast<int64_t>(ranks[1]) - ranks[0];
  for (size_t i = 2; i < ranks.size(); ++i) {
    if (static_cast<int64_t>(ranks[i]) - ranks[i - 1] != stride) return 0;
  }
  return static_cast<int>(stride);
}

}  // namespace

CallRecordPtr Backend::observe(Membership& group, const Request& request, uint64_t batch) {
  const Work::Call& call = request.call;
  const bool message = c10d::isP2POp(call.type);
  const uint64_t sequence = message ? ++group.message_sequence : ++group.sequence;
  if (at::hasCallbacks()) show_profiler(group, request, sequence, message);
  if (!Recorder::enabled()) return nullptr;
  auto record = std::make_shared<CallRecord>();
  RecordCaller(*record);
  record->title = call.title;
  record->group = group.spec.name;
  record->description = getGroupDesc();
  record->global_ranks = group.global_ranks;
  record->rank = group.facts.rank;
  record->point_to_point = message;
  record->sequence = sequence;
  record->batch = batch;
  record->bytes =
      std::max(Describe(call.inputs, record->inputs), Describe(call.results, record->outputs));
  const OperationSpec& spec = request.specs.front();
  if (NamesRank(spec.collective)) record->root = spec.any_source ? -1 : static_cast<int>(spec.root);
  if (message) record->tag = spec.user_tag;
  if (Reduces(spec.collective)) record->reduce_op = ToString(spec.reduce_op);
  record->input_splits = Splits<uint64_t>(spec, spec.input.partition);
  record->output_splits = Splits<uint64_t>(spec, spec.output.partition);
  record->algorithm = spec.algorithm;
  record->asynchronous = call.asynchronous;
  record->timeout_ms =
      spec.timeout > Duration{0}
          ? std::chrono::duration_cast<std::chrono::milliseconds>(spec.timeout).count()
          : timeout_.load().count();
  Recorder::instance().add(record);
  return record;
}

// torch.profiler's "record_param_comms", as torch's own backends emit it.
void Backend::show_profiler(const Membership& group, const Request& request, uint64_t sequence,
                            bool message) const {
  const Work::Call& call = request.call;
  const OperationSpec& spec = request.specs.front();
  const std::vector<at::Tensor>& typed = call.inputs.empty() ? call.results : call.inputs;
  const int stride = Stride(*group.global_ranks);
  RECORD_PARAM_COMMS_DATA_WITH_ASYNC_OP(
      std::make_tuple(static_cast<int64_t>(sequence), message),
      std::make_tuple(getGroupUid(), getGroupDesc()), call.inputs, call.results,
      NamesRank(spec.collective) ? static_cast<int>(spec.root) : group.facts.rank,
      std::string(std::string_view(call.title).substr(kPrefix.size())), Elements(call.inputs),
      Elements(call.results), typed.empty() ? at::kByte : typed[0].scalar_type(),
      Splits<int64_t>(spec, spec.input.partition), Splits<int64_t>(spec, spec.output.partition),
      stride == 0 ? -1 : static_cast<int>(group.global_ranks->front()), stride == 0 ? -1 : stride,
      group.facts.size, call.asynchronous);
}

}  // namespace rocecoll::torch_adapter
