// SPDX-License-Identifier: Apache-2.0
// The parts of rocecoll._c10d.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <pybind11/pybind11.h>

PYBIND11_DECLARE_HOLDER_TYPE(T, c10::intrusive_ptr<T>, true);

namespace rocecoll::torch_adapter {

// What Python needs to make process groups: Options, and groups of our own class.
void BindGroups(pybind11::module_& module);
// The recorder as Python sees it: start_recording(), stop_recording() and recorded_calls().
void BindRecorder(pybind11::module_& module);

}  // namespace rocecoll::torch_adapter
