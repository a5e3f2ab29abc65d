// SPDX-License-Identifier: Apache-2.0
// For tests whose program replaces calls of libibverbs: a program's own definitions take precedence
// over those of the libraries that it is linked to.
#pragma once

#include <dlfcn.h>

#include "base/check.h"

namespace rocecoll {

template <typename Function>
Function* Real(Function* /*type*/, const char* name) {
  void* found = dlvsym(RTLD_NEXT, name, "IBVERBS_1.1");  // 1.0 has another binary interface
  ROCECOLL_CHECK(found != nullptr);
  return reinterpret_cast<Function*>(found);
}

}  // namespace rocecoll
