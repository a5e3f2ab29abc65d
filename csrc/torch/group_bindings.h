// SPDX-License-Identifier: Apache-2.0
// What Python needs to make process groups: Options, and groups of our own class.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <pybind11/pybind11.h>

PYBIND11_DECLARE_HOLDER_TYPE(T, c10::intrusive_ptr<T>, true);

namespace rocecoll::torch_adapter {

void BindGroups(pybind11::module_& module);

}  // namespace rocecoll::torch_adapter
