// SPDX-License-Identifier: Apache-2.0
// Fingerprints by the number of the collective, for a few recent ones. Ranks that call different
// collectives as number n may never use the same tag, since their algorithms differ; comparing what
// is said about n at all finds that out.
#pragma once

#include <array>
#include <cstdint>

#include "transport/messenger.h"

namespace rocecoll {

class OperationHistory {
 public:
  static bool is_collective(const Tag& tag) { return tag.operation >> 63 == 0; }

  // nullptr: nothing is known about the operation.
  const Fingerprint* find(uint64_t operation) const {
    const Entry& entry = entries_[operation % kEntries];
    return entry.known && entry.operation == operation ? &entry.fingerprint : nullptr;
  }
  // Forgets the operation that shares the place, unless that is `keep_from` or later.
  void note(uint64_t operation, const Fingerprint& fingerprint, uint64_t keep_from) {
    Entry& entry = entries_[operation % kEntries];
    if (entry.known && (entry.operation == operation || entry.operation >= keep_from)) return;
    entry = {operation, true, fingerprint};
  }

 private:
  // More than the collectives that an engine has in flight (EngineOptions), a power of two.
  static constexpr size_t kEntries = 16;
  struct Entry {
    uint64_t operation = 0;
    bool known = false;
    Fingerprint fingerprint{};
  };
  std::array<Entry, kEntries> entries_;
};

}  // namespace rocecoll
