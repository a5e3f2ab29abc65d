// SPDX-License-Identifier: Apache-2.0
// Variables of other libraries that say what an option says: they count where ours is not set.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace rocecoll {

struct OptionAlias {
  std::string variable;
  // What is written there in our words; what those libraries do not know, as it stands. Empty: it
  // says no more than leaving it out.
  std::function<std::string(std::string_view)> in_our_words;
};

// NCCL's variables.
OptionAlias SameWords(std::string variable);
OptionAlias WholeNumber(std::string variable);  // in any base of C; negative: NCCL's own choice
OptionAlias AddressFamily(std::string variable);
OptionAlias DebugLevel(std::string variable);
// Gloo's: whole names of interfaces.
OptionAlias InterfaceNames(std::string variable);

}  // namespace rocecoll
