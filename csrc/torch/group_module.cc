// SPDX-License-Identifier: Apache-2.0
#include <pybind11/chrono.h>
#include <pybind11/stl.h>

#include <tuple>

#include "runtime/option_table.h"
#include "torch/backend/backend.h"
#include "torch/backend/process_group.h"
#include "torch/bindings.h"
#include "torch/process/errors.h"

namespace rocecoll::torch_adapter {
namespace {

namespace py = pybind11;

// A value of another type, such as a path, counts as its text.
OptionValue Given(py::handle value) {
  py::detail::make_caster<OptionValue> typed;
  if (typed.load(value, false)) return py::detail::cast_op<OptionValue>(std::move(typed));
  return py::str(value).cast<std::string>();
}

c10::intrusive_ptr<Options> MakeOptions(const py::kwargs& arguments) {
  OptionValues chosen;
  for (const auto& [key, given] : arguments) {
    const auto name = key.cast<std::string>();
    const Option* option = FindOption(name);
    if (option == nullptr || option->process_wide) {
      const py::object hint = py::module_::import("rocecoll.options").attr("hint")(name);
      throw py::type_error("rocecoll.Options has no option '" + name + "'" +
                           hint.cast<std::string>());
    }
    chosen[name] = ValueOrRaise(option->read(Given(given), name));
  }
  return c10::make_intrusive<Options>(std::move(chosen));
}

using OptionsState = std::tuple<OptionValues, std::chrono::milliseconds, std::string, std::string,
                                std::vector<uint64_t>>;

OptionsState GetState(const Options& options) {
  return {options.values, options.timeout, options.group_name, options.group_desc,
          options.global_ranks_in_group};
}

c10::intrusive_ptr<Options> SetState(OptionsState state) {
  auto options = c10::make_intrusive<Options>(std::get<0>(std::move(state)));
  std::tie(std::ignore, options->timeout, options->group_name, options->group_desc,
           options->global_ranks_in_group) = std::move(state);
  return options;
}

bool Equal(const Options& options, const py::object& other) {
  return py::isinstance<Options>(other) && options.same_choice(other.cast<const Options&>());
}

// Takes devices as text, since the caster of torch.device is in a library that is not linked.
c10::intrusive_ptr<c10d::ProcessGroup> MakeProcessGroup(
    const c10::intrusive_ptr<c10d::Store>& store, const c10::intrusive_ptr<Backend>& backend,
    const std::vector<std::string>& devices, const std::optional<std::string>& bound_device) {
  std::vector<c10::DeviceType> types;
  types.reserve(devices.size());
  for (const std::string& device : devices) types.push_back(c10::Device(device).type());
  std::optional<c10::Device> bound;
  if (bound_device) bound = c10::Device(*bound_device);
  return c10::make_intrusive<ProcessGroup>(store, backend, types, bound);
}

}  // namespace

void BindGroups(py::module_& module) {
  // Not module_local: torch's own bindings give it back too.
  py::class_<Options, c10d::Backend::Options, c10::intrusive_ptr<Options>>(module, "Options")
      .def(py::init(&MakeOptions))
      .def_readonly("values", &Options::values)
      // Here because torch's own class has had them only since 2.9 and 2.11.
      .def_readwrite("group_name", &Options::group_name)
      .def_readwrite("global_ranks_in_group", &Options::global_ranks_in_group)
      .def_readwrite("group_desc", &Options::group_desc)
      .def("__repr__", &Options::text)
      .def("__eq__", &Equal)
      .def(py::pickle(&GetState, &SetState));
  module.def("make_process_group", &MakeProcessGroup, py::kw_only(), py::arg("store"),
             py::arg("backend"), py::arg("devices"), py::arg("bound_device"));
}

}  // namespace rocecoll::torch_adapter
