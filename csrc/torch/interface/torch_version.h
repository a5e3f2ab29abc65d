// SPDX-License-Identifier: Apache-2.0
// Which torch this is compiled with: TORCH_VERSION_MINOR of torch 2.
#pragma once

#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h>
#else  // before 2.10
#include <torch/version.h>
#endif

static_assert(TORCH_VERSION_MAJOR == 2, "the conditions on it count the minor releases of torch 2");
