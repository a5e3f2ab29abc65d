// SPDX-License-Identifier: Apache-2.0
// Variables of other libraries with the meaning of an option; they count if ours is not set.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace rocecoll {

struct OptionAlias {
  std::string variable;
  // Translates their value into ours; a value that those libraries do not know stays as it is.
  // Empty: the value means the same as leaving the variable unset.
  std::function<std::string(std::string_view)> in_our_words;
};

// NCCL's variables.
OptionAlias SameWords(std::string variable);
OptionAlias WholeNumber(
    std::string variable);  // in any base of C; a negative one means NCCL's default
OptionAlias AddressFamily(std::string variable);
OptionAlias DebugLevel(std::string variable);
// Gloo's: whole names of interfaces.
OptionAlias InterfaceNames(std::string variable);

}  // namespace rocecoll
