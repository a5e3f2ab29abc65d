// SPDX-License-Identifier: Apache-2.0
#include "torch/backend/options.h"

namespace rocecoll::torch_adapter {

std::string Options::text() const {
  std::string list;
  for (const auto& [name, value] : values) {
    list += (list.empty() ? "" : ", ") + name + "='" + TextOf(value) + "'";
  }
  return "Options(" + list + ")";
}

}  // namespace rocecoll::torch_adapter
