// SPDX-License-Identifier: Apache-2.0
// Lets pybind11 hold torch's objects by torch's own pointer.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <pybind11/pybind11.h>

PYBIND11_DECLARE_HOLDER_TYPE(T, c10::intrusive_ptr<T>, true);
