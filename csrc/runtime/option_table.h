// SPDX-License-Identifier: Apache-2.0
// Every option of the runtime by name. One table: Python shows these names and passes text through.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/runtime.h"

namespace rocecoll {

struct RuntimeOption {
  std::string name;
  std::string accepts;  // for the message when set() refuses
  // Parses the text into the option's field; false when it is not acceptable.
  std::function<bool(RuntimeOptions&, std::string_view)> set;
};

const std::vector<RuntimeOption>& RuntimeOptionTable();

}  // namespace rocecoll
