// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "base/log.h"

namespace rocecoll {

// Takes the entries that wait in the log.
inline std::vector<LogEntry> TakeLog() {
  std::vector<LogEntry> entries;
  while (auto entry = TakeLogEntry(Duration{0})) entries.push_back(std::move(*entry));
  return entries;
}

}  // namespace rocecoll
