// SPDX-License-Identifier: Apache-2.0
// Fingerprints by the number of the collective, for recent ones and for those that this rank has
// not reached. Ranks that call different collectives as number n may never use the same tag, since
// their algorithms differ; comparing everything that is said about n reveals the mismatch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "messenger/messenger.h"

namespace rocecoll {

class OperationHistory {
 public:
  // Remembers about `recent` recent ones.
  explicit OperationHistory(size_t recent) : recent_(recent) {}

  // Null if nothing is known about the operation.
  const Fingerprint* find(uint64_t operation) const {
    const Entry& entry = recent_[operation % recent_.size()];
    if (entry.known && entry.operation == operation) return &entry.fingerprint;
    if (ahead_.empty()) return nullptr;
    const auto found = ahead_.find(operation);
    return found == ahead_.end() ? nullptr : &found->second;
  }
  // Fingerprints of `keep_from` and later ones are kept until a call with a higher `keep_from`.
  void note(uint64_t operation, const Fingerprint& fingerprint, uint64_t keep_from) {
    while (!ahead_.empty() && ahead_.begin()->first < keep_from) ahead_.erase(ahead_.begin());
    Entry& entry = recent_[operation % recent_.size()];
    if (entry.known && entry.operation == operation) return;
    if (!entry.known || entry.operation < keep_from) {
      entry = {operation, true, fingerprint};
    } else if (ahead_.size() < kMaxAhead) {
      ahead_.try_emplace(operation, fingerprint);
    }
  }

 private:
  // More than a peer can announce before we get there: by eager messages (credits), by early
  // clear-to-sends (MessengerOptions), and each of them once as pending.
  static constexpr size_t kMaxAhead = size_t{1} << 18;
  struct Entry {
    uint64_t operation = 0;
    bool known = false;
    Fingerprint fingerprint{};
  };
  std::vector<Entry> recent_;  // by number, modulo its size
  std::map<uint64_t, Fingerprint> ahead_;
};

}  // namespace rocecoll
