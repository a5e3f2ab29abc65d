// SPDX-License-Identifier: Apache-2.0
#include "runtime/option_alias.h"

#include <cerrno>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/text.h"

namespace rocecoll {
namespace {

using Words = std::vector<std::pair<std::string_view, std::string_view>>;

OptionAlias Translated(std::string variable, Words words) {
  return {std::move(variable), [words = std::move(words)](std::string_view text) {
            const std::string lower = LowerCase(Trimmed(text));
            for (const auto& [theirs, ours] : words) {
              if (lower == theirs) return std::string(ours);
            }
            return std::string(text);
          }};
}

}  // namespace

OptionAlias SameWords(std::string variable) {
  return {std::move(variable), [](std::string_view text) { return std::string(text); }};
}

// NCCL reads numbers with strtoll(text, &end, 0).
OptionAlias WholeNumber(std::string variable) {
  return {std::move(variable), [](std::string_view given) {
            std::string text(Trimmed(given));
            char* end = nullptr;
            errno = 0;
            const long long number = std::strtoll(text.c_str(), &end, 0);
            if (text.empty() || *end != '\0' || errno != 0) return text;
            return number < 0 ? std::string() : std::to_string(number);
          }};
}

OptionAlias AddressFamily(std::string variable) {
  return Translated(std::move(variable), {{"af_inet", "ipv4"}, {"af_inet6", "ipv6"}});
}

OptionAlias DebugLevel(std::string variable) {
  return Translated(std::move(variable), {{"version", "warn"}, {"trace", "info"}});
}

OptionAlias InterfaceNames(std::string variable) {
  return {std::move(variable), [](std::string_view text) { return "=" + std::string(text); }};
}

}  // namespace rocecoll
