// SPDX-License-Identifier: Apache-2.0
// Words to people about what is not an error of an operation: which network carries a pair of
// ranks, that a port went down. Python hands them to its logging. Thread safe; never blocks. A
// forked child begins with an empty queue: what waits is the parent's to tell.
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
// The oldest entry; waits for one for at most `timeout`, or until StopLogWaits().
std::optional<LogEntry> TakeLogEntry(Duration timeout);
// Every waiting and later TakeLogEntry() returns at once, with an entry while there are some.
void StopLogWaits();

}  // namespace rocecoll
