// SPDX-License-Identifier: Apache-2.0
// rocecoll._core: the core without torch, for tests, benchmarks and other frameworks.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <optional>

#include "base/log.h"
#include "collectives/selector.h"
#include "python/errors.h"
#include "python/group_object.h"
#include "python/runtime_object.h"
#include "runtime/open_transport.h"

namespace py = pybind11;

extern "C" const char* rocecoll_version();

namespace rocecoll::python {
namespace {

std::vector<std::string> AlgorithmNamesOf(const std::string& name) {
  for (const CollectiveTraits& traits : kCollectiveTraits) {
    if (traits.name != name) continue;
    const auto names = AlgorithmNames(traits.collective);
    return {names.begin(), names.end()};
  }
  RaiseInvalid("there is no collective \"" + name + "\"");
}

std::string DescribeDevicesFor(const std::map<std::string, std::string>& settings) {
  const RuntimeOptions options = OptionsFrom(settings);
  const py::gil_scoped_release release;
  return DescribeDevices(options);
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
  module.def("runtime_option_names", &RuntimeOptionNames);
  module.def("algorithm_names", &AlgorithmNamesOf, py::arg("collective"));
  module.def("describe_devices", &DescribeDevicesFor,
             py::arg("options") = std::map<std::string, std::string>(),
             "One line for each port of each RDMA device, or why there are none.");
  module.def("take_log_entry", &TakeLogEntryWithin, py::arg("timeout_s"),
             "(\"info\" or \"warning\", text); None after the timeout or stop_log_waits().");
  module.def("stop_log_waits", &StopLogWaits);
  module.def("version", [] { return std::string(rocecoll_version()); });
}

}  // namespace
}  // namespace rocecoll::python
