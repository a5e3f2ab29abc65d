// SPDX-License-Identifier: Apache-2.0
// The recorder as Python sees it.
#pragma once

#include <pybind11/pybind11.h>

namespace rocecoll::torch_adapter {

// Adds start_recording(), stop_recording() and recorded_calls().
void BindRecorder(pybind11::module_& module);

}  // namespace rocecoll::torch_adapter
