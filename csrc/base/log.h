// SPDX-License-Identifier: Apache-2.0
// Messages to people about anything that is not an error of an operation: which network carries a
// pair of ranks, that a port went down. Python passes them to its logging. Thread safe; never
// blocks. A forked child begins with an empty queue: waiting entries are for the parent to report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"

namespace rocecoll {

enum class Severity : uint8_t { kInfo, kWarning };

struct LogEntry {
  Severity severity = Severity::kInfo;
  std::string text;
};

// Queues the entry; drops it when kMaxLogEntries wait.
inline constexpr size_t kMaxLogEntries = 256;
void Log(Severity severity, std::string text);
// Takes the oldest entry. Waits for one until `timeout` has passed or StopLogWaits() is called.
std::optional<LogEntry> TakeLogEntry(Duration timeout);
// Makes every waiting and later TakeLogEntry() return at once, with an entry while there are any.
void StopLogWaits();

}  // namespace rocecoll
