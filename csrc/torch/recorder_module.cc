// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include "torch/bindings.h"
#include "torch/observing/recorder.h"
#include "torch/tensors/tensor_layout.h"

namespace rocecoll::torch_adapter {
namespace {

namespace py = pybind11;

py::list TensorList(const std::vector<RecordedTensor>& tensors) {
  py::list list;
  for (const RecordedTensor& tensor : tensors) {
    list.append(py::make_tuple(std::vector<int64_t>(tensor.sizes.begin(), tensor.sizes.end()),
                               std::string(ToString(ToDataType(tensor.type))),
                               tensor.device.str()));
  }
  return list;
}

py::object Time(int64_t steady_ns, int64_t offset_ns) {
  if (steady_ns == 0) return py::none();
  return py::int_(steady_ns + offset_ns);
}

py::dict CallDict(const CallRecord& record, int64_t offset_ns) {
  // Read before the others: once it is set, they are.
  const int64_t ended_ns = record.ended_ns();
  py::dict call;
  call["id"] = record.id;
  call["op"] = record.title;
  call["group"] = record.group;
  call["description"] = record.description;
  call["global_ranks"] = *record.global_ranks;
  call["group_rank"] = record.rank;
  call["point_to_point"] = record.point_to_point;
  call["sequence"] = record.sequence;
  call["batch"] = record.batch;
  call["inputs"] = TensorList(record.inputs);
  call["outputs"] = TensorList(record.outputs);
  call["bytes"] = record.bytes;
  call["root"] = record.peer();
  call["tag"] = record.tag;
  call["reduce_op"] = std::string(record.reduce_op);
  call["input_splits"] = record.input_splits;
  call["output_splits"] = record.output_splits;
  call["algorithm"] = record.algorithm;
  call["asynchronous"] = record.asynchronous;
  call["timeout_ms"] = record.timeout_ms;
  call["thread_id"] = record.thread_id;
  call["thread_name"] = record.thread_name;
  call["enqueued_ns"] = Time(record.enqueued_ns, offset_ns);
  call["started_ns"] = Time(record.started_ns(), offset_ns);
  call["ended_ns"] = Time(ended_ns, offset_ns);
  call["error"] = ended_ns == 0 ? std::string() : record.error();
  return call;
}

// The Python frames of each record, innermost first.
std::vector<py::list> Frames(const std::vector<CallRecordPtr>& records) {
  std::vector<torch::CapturedTraceback*> initiators;
  for (const CallRecordPtr& record : records) initiators.push_back(record->initiator.get());
  const torch::SymbolizedTracebacks symbols = torch::symbolize(initiators);
  std::vector<py::dict> unique;
  for (const auto& frame : symbols.all_frames) {
    py::dict item;
    item["name"] = frame.funcname;
    item["filename"] = frame.filename;
    item["line"] = frame.lineno;
    unique.push_back(std::move(item));
  }
  std::vector<py::list> result;
  for (const std::vector<uint64_t>& traceback : symbols.tracebacks) {
    py::list frames;
    for (const uint64_t index : traceback) frames.append(unique[index]);
    result.push_back(std::move(frames));
  }
  return result;
}

py::tuple RecordedCalls(uint64_t first) {
  const Recorder::Excerpt excerpt = Recorder::instance().since(first);
  const std::vector<py::list> frames = Frames(excerpt.records);
  const int64_t offset_ns = ClockOffsetNs();
  py::list calls;
  for (size_t i = 0; i < excerpt.records.size(); ++i) {
    py::dict call = CallDict(*excerpt.records[i], offset_ns);
    call["frames"] = frames[i];
    calls.append(std::move(call));
  }
  return py::make_tuple(calls, excerpt.dropped);
}

}  // namespace

void BindRecorder(py::module_& module) {
  module.def(
      "start_recording", [](size_t capacity) { return Recorder::instance().start(capacity); },
      py::arg("capacity"));
  module.def("stop_recording", [] { Recorder::instance().stop(); });
  module.def("recorded_calls", &RecordedCalls, py::arg("first"));
}

}  // namespace rocecoll::torch_adapter
