// SPDX-License-Identifier: Apache-2.0
// The methods of rocecoll._core.Group, named and ordered as in torch.distributed.
#include <pybind11/stl.h>

#include "base/bytes.h"
#include "python/errors.h"
#include "python/group_object.h"

namespace py = pybind11;

namespace rocecoll::python {
namespace {

using Call = GroupObject::Call;
using Name = const std::string&;  // a view would have pybind11 keep what it is of
using Object = const py::object&;

std::unique_ptr<GroupObject> MakeGroup(const RuntimeObject& runtime, Name name,
                                       const py::bytes& key, int64_t rank,
                                       const std::vector<std::string>& addresses, double timeout_s,
                                       const std::vector<Rank>& global_ranks,
                                       const std::vector<uint32_t>& hosts) {
  const auto key_text = static_cast<std::string>(key);
  if (key_text.size() != GroupKey::kWireBytes) {
    RaiseInvalid("the key of a group has 16 bytes, not " + std::to_string(key_text.size()));
  }
  if (rank < 0 || static_cast<uint64_t>(rank) >= addresses.size()) {
    RaiseInvalid("rank " + std::to_string(rank) + " of " + std::to_string(addresses.size()));
  }
  GroupSpec spec;
  spec.name = std::string(name);
  ByteReader key_bytes(std::as_bytes(std::span(key_text)));
  spec.key = GroupKey::load(key_bytes);
  spec.rank = static_cast<Rank>(rank);
  std::vector<Address> reached;
  reached.reserve(addresses.size());
  for (const std::string& text : addresses) {
    auto address = ParseAddress(text);
    RaiseUnlessOk(address.status());
    reached.push_back(address.take());
  }
  spec.addresses = std::move(reached);
  spec.global_ranks = global_ranks;
  spec.hosts = hosts;
  spec.timeout = DurationFromSeconds(timeout_s, "timeout_s");
  spec.messenger = runtime.options().messenger;
  return std::make_unique<GroupObject>(runtime, std::move(spec));
}

// Adds a method whose last keyword arguments are CallOptions. `body(group, options, arguments...)`.
template <typename... Arguments, typename Class, typename... Extra>
void Define(Class& group, const char* name,
            py::object (*body)(const GroupObject&, const CallOptions&, Arguments...),
            const Extra&... extra) {
  group.def(
      name,
      [body](const GroupObject& self, Arguments... arguments, double timeout_s, Name algorithm,
             bool asynchronous) {
        return body(self, CallOptions{timeout_s, algorithm, asynchronous}, arguments...);
      },
      extra..., py::arg("timeout_s") = 0.0, py::arg("algorithm") = "",
      py::arg("asynchronous") = true);
}

py::object AllReduce(const GroupObject& group, const CallOptions& options, Object buffer, Name type,
                     Name op, Object output, double premul_factor) {
  Call call(group, Collective::kAllreduce, type, options);
  call.reduce_op(op, premul_factor);
  // Without an output the buffer is both, so it must be writable.
  call.output(output.is_none() ? buffer : output, group.size());
  return call.input(buffer, group.size()).run();
}

py::object Reduce(const GroupObject& group, const CallOptions& options, Object buffer, Name type,
                  int64_t root, Name op, Object output, double premul_factor) {
  Call call(group, Collective::kReduce, type, options);
  call.reduce_op(op, premul_factor).root(root);
  if (root == group.rank()) call.output(output.is_none() ? buffer : output, group.size());
  return call.input(buffer, group.size()).run();
}

py::object ReduceScatter(const GroupObject& group, const CallOptions& options, Object input,
                         Object output, Name type, Name op, const Counts& counts,
                         double premul_factor) {
  Call call(group, Collective::kReduceScatter, type, options);
  call.reduce_op(op, premul_factor).input(input, group.size(), counts).output(output, 1);
  return call.run();
}

py::object Broadcast(const GroupObject& group, const CallOptions& options, Object buffer, Name type,
                     int64_t root) {
  Call call(group, Collective::kBroadcast, type, options);
  return call.root(root).output(buffer, group.size()).run();
}

py::object AllGather(const GroupObject& group, const CallOptions& options, Object input,
                     Object output, Name type, const Counts& counts) {
  Call call(group, Collective::kAllgather, type, options);
  return call.input(input, 1).output(output, group.size(), counts).run();
}

py::object Gather(const GroupObject& group, const CallOptions& options, Object input, Object output,
                  Name type, int64_t root) {
  Call call(group, Collective::kGather, type, options);
  return call.root(root).input(input, 1).output(output, group.size()).run();
}

py::object Scatter(const GroupObject& group, const CallOptions& options, Object input,
                   Object output, Name type, int64_t root) {
  Call call(group, Collective::kScatter, type, options);
  return call.root(root).input(input, group.size()).output(output, 1).run();
}

py::object AllToAll(const GroupObject& group, const CallOptions& options, Object input,
                    Object output, Name type, const Counts& input_counts,
                    const Counts& output_counts) {
  Call call(group, Collective::kAlltoall, type, options);
  if (input_counts.has_value() != output_counts.has_value()) {
    RaiseInvalid("all_to_all: give both input_counts and output_counts, or none");
  }
  call.uniform(!input_counts.has_value());
  return call.input(input, group.size(), input_counts)
      .output(output, group.size(), output_counts)
      .run();
}

py::object Barrier(const GroupObject& group, const CallOptions& options) {
  return Call(group, Collective::kBarrier, "uint8", options).run();
}

py::object Send(const GroupObject& group, const CallOptions& options, Object buffer, Name type,
                int64_t to, int64_t tag) {
  return Call(group, Collective::kSend, type, options).root(to).tag(tag).input(buffer, 1).run();
}

py::object Recv(const GroupObject& group, const CallOptions& options, Object buffer, Name type,
                int64_t from, int64_t tag) {
  Call call(group, Collective::kRecv, type, options);
  return call.root(from).tag(tag).output(buffer, 1).run();
}

}  // namespace

void BindGroup(py::module_& module) {
  using py::arg;
  const auto op = arg("op") = "SUM";
  const auto factor = arg("premul_factor") = 1.0;
  const auto no_output = arg("output") = py::none();
  const auto no_counts = arg("counts") = py::none();
  py::class_<GroupObject> group(module, "Group",
                                "One rank of a group. Buffers are objects with contiguous memory; "
                                "they are held until the operation is complete. A call with "
                                "asynchronous=False returns once it is, and raises its failure.");
  group.def(py::init(&MakeGroup), arg("runtime"), arg("name"), arg("key"), arg("rank"),
            arg("addresses"), arg("timeout_s") = 1800.0, arg("global_ranks") = std::vector<Rank>(),
            arg("hosts") = std::vector<uint32_t>());
  group.def_property_readonly("rank", &GroupObject::rank)
      .def_property_readonly("size", &GroupObject::size)
      .def_property_readonly(
          "status",
          [](const GroupObject& self) { return std::string(ToString(self.status().code())); },
          "\"ok\", or the kind of failure that ended the group.")
      .def("set_timeout", &GroupObject::set_timeout, arg("timeout_s"))
      .def("abort", &GroupObject::abort, arg("reason") = "aborted by the user")
      .def("close", &GroupObject::close);
  Define(group, "all_reduce", AllReduce, arg("buffer"), arg("dtype"), op, no_output, factor);
  Define(group, "reduce", Reduce, arg("buffer"), arg("dtype"), arg("root"), op, no_output, factor);
  Define(group, "reduce_scatter", ReduceScatter, arg("input"), arg("output"), arg("dtype"), op,
         no_counts, factor);
  Define(group, "broadcast", Broadcast, arg("buffer"), arg("dtype"), arg("root"));
  Define(group, "all_gather", AllGather, arg("input"), arg("output"), arg("dtype"), no_counts);
  Define(group, "gather", Gather, arg("input"), arg("output").none(true), arg("dtype"),
         arg("root"));
  Define(group, "scatter", Scatter, arg("input").none(true), arg("output"), arg("dtype"),
         arg("root"));
  Define(group, "all_to_all", AllToAll, arg("input"), arg("output"), arg("dtype"),
         arg("input_counts") = py::none(), arg("output_counts") = py::none());
  Define(group, "barrier", Barrier);
  Define(group, "send", Send, arg("buffer"), arg("dtype"), arg("to"), arg("tag") = 0);
  Define(group, "recv", Recv, arg("buffer"), arg("dtype"), arg("source"), arg("tag") = 0);
}

}  // namespace rocecoll::python
