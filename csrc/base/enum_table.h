// SPDX-License-Identifier: Apache-2.0
// Tables with a row for each enumerator of an enum that counts from 0, checked at compile time: a
// missing, duplicate or misplaced row is an error, and the number of enumerators is never written
// by hand. The same count checks numbers from the wire that become enumerators.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>

#include "base/check.h"

namespace rocecoll {

// g++ and clang++ spell a named value "Color::kRed" and any other "(Color)3", so that a digit
// follows the last parenthesis.
template <auto kValue>
consteval bool IsEnumerator() {
  const std::string_view signature = __PRETTY_FUNCTION__;
  const char next = signature[signature.rfind(')') + 1];
  return next == ' ' || next == ':';
}

// One more than the last enumerator of the consecutive ones from `kFrom` on.
template <typename Enum, size_t kFrom = 0>
consteval size_t CountEnumerators() {
  if constexpr (IsEnumerator<static_cast<Enum>(kFrom)>()) {
    return CountEnumerators<Enum, kFrom + 1>();
  } else {
    return kFrom;
  }
}

// The enumerator with this number, of an enum that counts from `kFrom`; none if there is no such
// one.
template <typename Enum, size_t kFrom = 0>
constexpr std::optional<Enum> EnumeratorOf(std::underlying_type_t<Enum> number) {
  if (number < kFrom || number >= CountEnumerators<Enum, kFrom>()) return std::nullopt;
  return static_cast<Enum>(number);
}

// For a static_assert next to the table. `key` is the member that holds a row's enumerator.
template <typename Row, size_t kRows, typename Enum>
consteval bool HasRowForEach(const std::array<Row, kRows>& table, Enum Row::* key) {
  for (size_t i = 0; i < kRows; ++i) {
    if (table[i].*key != static_cast<Enum>(i)) return false;
  }
  return kRows == CountEnumerators<Enum>();
}

template <typename Row, size_t kRows, typename Enum>
constexpr const Row& RowOf(const std::array<Row, kRows>& table, Enum value) {
  ROCECOLL_CHECK(static_cast<size_t>(value) < kRows);
  return table[static_cast<size_t>(value)];
}

}  // namespace rocecoll
