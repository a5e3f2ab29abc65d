// SPDX-License-Identifier: Apache-2.0
// When something happened, in text that people can compare between the logs of several hosts. It
// reads a clock by itself, since no behaviour ever depends on it.
#pragma once

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>

#include "base/time.h"

namespace rocecoll {

// The time of day `ago` before now: "14:03:07.250 UTC".
inline std::string TimeOfDay(Duration ago) {
  using std::chrono::milliseconds;
  const auto at = std::chrono::system_clock::now() - ago;
  const auto since_epoch = std::chrono::duration_cast<milliseconds>(at.time_since_epoch());
  const auto seconds = static_cast<std::time_t>(since_epoch / std::chrono::seconds(1));
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 48> text;
  std::snprintf(text.data(), text.size(), "%02d:%02d:%02d.%03d UTC", parts.tm_hour, parts.tm_min,
                parts.tm_sec, static_cast<int>(since_epoch.count() % 1000));
  return text.data();
}

}  // namespace rocecoll
