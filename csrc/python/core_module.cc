// SPDX-License-Identifier: Apache-2.0
// rocecoll._core: the core without torch, for tests, benchmarks and other frameworks.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "collectives/selector.h"
#include "python/errors.h"
#include "python/group_object.h"
#include "python/runtime_object.h"

namespace py = pybind11;

extern "C" const char* rocecoll_version();

namespace rocecoll::python {
namespace {

std::vector<std::string> AlgorithmNamesOf(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(Collective::kRecv); ++i) {
    const auto collective = static_cast<Collective>(i);
    if (ToString(collective) != name) continue;
    const auto names = AlgorithmNames(collective);
    return {names.begin(), names.end()};
  }
  RaiseInvalid("there is no collective \"" + name + "\"");
}

PYBIND11_MODULE(_core, module) {
  module.doc() = "Collectives over buffers, without torch.";
  BindErrors(module);
  BindRuntime(module);
  BindGroup(module);
  module.def("runtime_option_names", &RuntimeOptionNames);
  module.def("algorithm_names", &AlgorithmNamesOf, py::arg("collective"));
  module.def("version", [] { return std::string(rocecoll_version()); });
}

}  // namespace
}  // namespace rocecoll::python
