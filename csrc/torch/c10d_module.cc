// SPDX-License-Identifier: Apache-2.0
// rocecoll._c10d: what rocecoll/backend.py needs of the adapter. Everything else reaches the
// backend through torch's own bindings of c10d::Backend and c10d::Work.
#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/named_status.h"
#include "base/open_files.h"
#include "interpreter/process_end.h"
#include "runtime/option_table.h"
#include "runtime/runtime_owner.h"
#include "torch/backend/backend.h"
#include "torch/bindings.h"
#include "torch/process/completion_pool.h"
#include "torch/process/device_thread.h"
#include "torch/process/errors.h"

namespace rocecoll::torch_adapter {
namespace {

namespace py = pybind11;

// How long callbacks of the program may still run when it ends.
constexpr Duration kDrainLimit = std::chrono::seconds(2);

// Descriptors that making a group opens briefly, one or two at a time, before and beside those of
// its runtime: to list interfaces, find the route and identify the host.
constexpr size_t kOpenFilesOfAGroup = 8;

void RequireRoomForAGroup() {
  const Status room = RequireOpenFiles(kOpenFilesOfAGroup);
  if (!room.ok()) Raise(NamedStatus(room.code(), room.message()));
}

std::shared_ptr<Runtime> Start(const OptionValues& settings) {
  return ValueOrRaise(RuntimeOwner::instance().start(settings));
}

void ShutDown(bool threads_may_stay) {
  if (threads_may_stay) ProcessEnd::instance().begin();
  RuntimeOwner::instance().end();
  if (!CompletionPool::instance().drain(kDrainLimit)) return;
  // Tasks that the pool has handed to a device come back to it once their copies are done.
  DeviceThread::drain_all(kDrainLimit);
  CompletionPool::instance().drain(kDrainLimit);
}

GroupMember MakeMember(const std::string& address, uint64_t process, bool roce,
                       const std::string& known_as, uint32_t host) {
  return {ValueOrRaise(ParseAddress(address))
              .of_process(process)
              .with_roce(roce ? Roce::kUsable : Roce::kNone),
          known_as, host};
}

GroupSpec MakeSpec(const std::string& name, const std::string& key, Rank rank,
                   const std::vector<GroupMember>& members, std::chrono::milliseconds timeout) {
  if (key.size() != GroupKey::kWireBytes) throw py::value_error("a group's key has 16 bytes");
  GroupSpec group;
  group.name = name;
  ByteReader key_bytes(std::as_bytes(std::span(key)));
  group.key = GroupKey::load(key_bytes);
  group.rank = rank;
  group.set_members(members);
  group.timeout = Saturated(timeout);
  return group;
}

c10::intrusive_ptr<Backend> MakeBackend(const std::shared_ptr<Runtime>& runtime,
                                        const std::string& name, const std::string& key, Rank rank,
                                        const std::vector<GroupMember>& members,
                                        const std::vector<Rank>& global_ranks,
                                        std::chrono::milliseconds timeout,
                                        const std::string& algorithms, const Options& chosen) {
  auto table = ParseAlgorithms(algorithms);
  if (!table) throw py::value_error("unknown collective among the algorithms");
  GroupSpec group = MakeSpec(name, key, rank, members, timeout);
  group.global_ranks = global_ranks;
  auto own = c10::make_intrusive<Options>(chosen);  // the caller may use its own for other groups
  own->timeout = timeout;
  return c10::make_intrusive<Backend>(runtime, std::move(group), *std::move(table), std::move(own));
}

}  // namespace

PYBIND11_MODULE(_c10d, module) {
  py::module_::import("torch.distributed");  // registers the base classes
  const auto unlocked = py::call_guard<py::gil_scoped_release>();

  py::class_<Runtime, std::shared_ptr<Runtime>>(module, "Runtime", py::module_local())
      .def_property_readonly("address",
                             [](const Runtime& r) { return ProgressOf(r).address().text(); })
      .def_property_readonly("process",
                             [](const Runtime& r) { return ProgressOf(r).address().process(); })
      .def_property_readonly("settings", &Runtime::settings)
      .def_property_readonly("roce_port", [](const Runtime& r) { return r.roce().port; })
      .def_property_readonly("roce_problem", [](const Runtime& r) { return r.roce().problem; });
  module.def("require_room_for_a_group", &RequireRoomForAGroup);
  module.def("start_runtime", &Start, py::arg("settings"), unlocked);
  module.def("shut_down", &ShutDown, py::arg("threads_may_stay"), unlocked);

  BindGroups(module);
  // Not module_local: ProcessGroup._get_backend() gives it back.
  auto backend = py::class_<Backend, c10d::Backend, c10::intrusive_ptr<Backend>>(module, "Backend");
  backend
      .def_property_readonly("options", &Backend::getBackendOptions)
      // What torch's own backends call it.
      .def("_set_default_timeout", &Backend::setTimeout, py::arg("timeout"), unlocked)
      .def(
          "prepare_staging",
          [](Backend& backend, const std::string& device) {
            backend.prepare_staging(c10::Device(device));
          },
          py::arg("device"), unlocked)
      .def("split", &Backend::split, py::arg("store"), py::arg("ranks"),
           py::arg("options") = nullptr)
      .def(
          "remade",
          [](const Backend& backend, const std::string& name, const std::string& key, Rank rank,
             const std::vector<GroupMember>& members, std::chrono::milliseconds timeout) {
            return backend.remade(MakeSpec(name, key, rank, members, timeout));
          },
          py::kw_only(), py::arg("name"), py::arg("key"), py::arg("rank"), py::arg("members"),
          py::arg("timeout"))
      // torch calls it on ranks outside of a group that new_group() makes, where others split.
      .def("perform_nocolor_split", [](Backend&, const py::object& /*device*/) {});
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  backend.def("await_members", &Backend::await_members, py::arg("rank"), py::arg("size"))
      .def("adopt", &Backend::adopt, py::arg("made"), unlocked);
#endif
  py::class_<GroupMember>(module, "Member", py::module_local())
      .def(py::init(&MakeMember), py::kw_only(), py::arg("address"), py::arg("process"),
           py::arg("roce"), py::arg("known_as"), py::arg("host"));
  module.def("make_backend", &MakeBackend, py::kw_only(), py::arg("runtime"), py::arg("name"),
             py::arg("key"), py::arg("rank"), py::arg("members"), py::arg("global_ranks"),
             py::arg("timeout"), py::arg("algorithms"), py::arg("options"));
  BindRecorder(module);
}

}  // namespace rocecoll::torch_adapter
