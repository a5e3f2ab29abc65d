// SPDX-License-Identifier: Apache-2.0
// Fingerprints by the number of the collective: of the recent ones, and of those that this rank has
// not reached. Ranks that call different collectives as number n may never use the same tag, since
// their algorithms differ; comparing what is said about n at all finds that out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "messenger/messenger.h"

namespace rocecoll {

class OperationHistory {
 public:
  // Remembers about so many recent ones.
  explicit OperationHistory(size_t recent) : recent_(recent) {}

  // nullptr: nothing is known about the operation.
  const Fingerprint* find(uint64_t operation) const {
    const Entry& entry = recent_[operation % recent_.size()];
    if (entry.known && entry.operation == operation) return &entry.fingerprint;
    if (ahead_.empty()) return nullptr;
    const auto found = ahead_.find(operation);
    return found == ahead_.end() ? nullptr : &found->second;
  }
  // What is known of `keep_from` and later ones is kept until a later call with a higher one.
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
  // More than a peer can have announced without us: by eager messages (credits), early
  // clear-to-sends (MessengerOptions), and each of them once as waiting.
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
