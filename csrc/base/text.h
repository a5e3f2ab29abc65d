// SPDX-License-Identifier: Apache-2.0
// Helpers for text that comes from, or goes to, other processes or the environment.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rocecoll {

// The longest prefix of UTF-8 text in at most `max_bytes` that cuts no character.
constexpr std::string_view CutText(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  constexpr auto continues = [](char byte) { return (static_cast<unsigned char>(byte) >> 6) == 2; };
  while (max_bytes > 0 && continues(text[max_bytes])) --max_bytes;
  return text.substr(0, max_bytes);
}

// Without leading and trailing whitespace.
constexpr std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\r\f\v";
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
}

// For words that are compared without regard to case; ASCII letters only.
inline std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) {
    if (letter >= 'A' && letter <= 'Z') letter += 'a' - 'A';
  }
  return lower;
}

// Without control characters, for logs and terminals.
inline std::string Printable(std::string text) {
  for (char& byte : text) {
    if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f) byte = ' ';
  }
  return text;
}

}  // namespace rocecoll
