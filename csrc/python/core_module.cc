// SPDX-License-Identifier: Apache-2.0
// rocecoll._core: the core without torch, for tests, benchmarks and other frameworks.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>

#include "base/log.h"
#include "collectives/host_layout.h"
#include "collectives/selector.h"
#include "python/errors.h"
#include "python/group_object.h"
#include "python/memory_object.h"
#include "python/runtime_object.h"
#include "runtime/open_transport.h"
#include "runtime/resolve_autos.h"

namespace py = pybind11;

extern "C" const char* rocecoll_version();

namespace rocecoll::python {
namespace {

std::vector<std::string> AlgorithmNamesOf(const std::string& collective, uint32_t ranks,
                                          const std::vector<uint32_t>& hosts) {
  if (!hosts.empty() && hosts.size() != ranks) {
    RaiseInvalid(std::to_string(hosts.size()) + " hosts named for " + std::to_string(ranks) +
                 " ranks");
  }
  if (ranks != 0) RaiseUnlessOk(CheckRanks(ranks));
  std::optional<HostLayout> layout;
  if (!hosts.empty()) layout.emplace(hosts);
  for (const CollectiveTraits& traits : kCollectiveTraits) {
    if (traits.name != collective) continue;
    const ProgramRequest request{
        .collective = traits.collective, .ranks = ranks, .hosts = layout ? &*layout : nullptr};
    std::vector<std::string> names;
    for (const std::string_view name : AlgorithmNames(traits.collective)) {
      if (ranks == 0 || MakeProgram(request, name).ok()) names.emplace_back(name);
    }
    return names;
  }
  RaiseInvalid("there is no collective \"" + collective + "\"");
}

std::string DescribeDevicesFor(const OptionValues& values) {
  const RuntimeOptions options = OptionsFrom(values);
  const py::gil_scoped_release release;
  return DescribeDevices(options);
}

void BindOptions(py::module_& module) {
  const auto read = [](const Option& option, const OptionValue& given, const std::string& origin) {
    auto value = option.read(given, origin);
    if (!value.ok()) throw py::value_error(value.status().message());
    return value.take();
  };
  py::class_<OptionAlias>(module, "OptionAlias", "A variable of another library.")
      .def_readonly("variable", &OptionAlias::variable)
      .def(
          "in_our_words",
          [](const OptionAlias& alias, const std::string& text) {
            return alias.in_our_words(text);
          },
          py::arg("text"), "Text for Option.read(); empty: as if it were not set.");
  py::class_<Option>(module, "Option", "A row of the table; None as a value is \"auto\".")
      .def_readonly("name", &Option::name)
      .def_property_readonly("accepted", [](const Option& option) { return option.kind.accepted; })
      .def_property_readonly("type", [](const Option& option) { return option.kind.type; })
      .def_readonly("default", &Option::default_value)
      .def_readonly("unit", &Option::unit)
      .def_readonly("doc", &Option::doc)
      .def_readonly("process_wide", &Option::process_wide)
      .def_readonly("aliases", &Option::aliases)
      .def_readonly("must_agree", &Option::must_agree)
      .def_static("text", &TextOf, py::arg("value"), "As a variable would say it.")
      .def_property_readonly(
          "of_runtime", [](const Option& option) { return bool(option.set); },
          "Runtime() takes it.")
      .def("read", read, py::arg("given"), py::arg("origin"),
           "The value of text, or of a value, or ValueError, which says where it is from.");
  module.def("option_table", &OptionTable);
  module.def("with_defaults", &WithDefaults, py::arg("named"),
             "Values of all options by name; shm is decided.");
}

// (severity, text), or None. Without the GIL while it waits.
std::optional<std::pair<std::string, std::string>> TakeLogEntryWithin(double timeout_s) {
  const Duration timeout = DurationFromSeconds(timeout_s, "timeout_s");
  std::optional<LogEntry> entry;
  {
    const py::gil_scoped_release release;
    entry = TakeLogEntry(timeout);
  }
  if (!entry.has_value()) return std::nullopt;
  return std::pair(entry->severity == Severity::kWarning ? "warning" : "info",
                   std::move(entry->text));
}

PYBIND11_MODULE(_core, module) {
  module.doc() = "Collectives over buffers, without torch.";
  BindErrors(module);
  BindRuntime(module);
  BindGroup(module);
  BindMemory(module);
  BindOptions(module);
  module.def("algorithm_names", &AlgorithmNamesOf, py::arg("collective"), py::arg("ranks") = 0,
             py::arg("hosts") = std::vector<uint32_t>(),
             "All of them, or those that so many ranks, on these hosts, can use for blocks of one "
             "size.");
  module.def("describe_devices", &DescribeDevicesFor, py::arg("options") = OptionValues(),
             "One line for each port of each RDMA device, or why there are none.");
  module.def("take_log_entry", &TakeLogEntryWithin, py::arg("timeout_s"),
             "(\"info\" or \"warning\", text); None after the timeout or stop_log_waits().");
  module.def("stop_log_waits", &StopLogWaits);
  module.def("version", [] { return std::string(rocecoll_version()); });
}

}  // namespace
}  // namespace rocecoll::python
