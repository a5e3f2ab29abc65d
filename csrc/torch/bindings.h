// SPDX-License-Identifier: Apache-2.0
// The parts of rocecoll._c10d.
#pragma once

#include "torch/interface/intrusive_holder.h"

namespace rocecoll::torch_adapter {

// What Python needs to make process groups: Options, and groups of our own class.
void BindGroups(pybind11::module_& module);
// The recorder as Python sees it: start_recording(), stop_recording() and recorded_calls().
void BindRecorder(pybind11::module_& module);

}  // namespace rocecoll::torch_adapter
