// SPDX-License-Identifier: Apache-2.0
// How often each of a user's tags has been used. Neighbouring tags that were used equally often are
// one entry: a program that counts its tags up, or goes through a range of them in any order, needs
// a few entries, however many tags it uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "messenger/messenger.h"

namespace rocecoll {

class TagCounts {
 public:
  explicit TagCounts(uint32_t first = 0) : first_(first) {}

  uint32_t count(uint32_t tag) const;
  // Counts one use; returns how many there were before. Counts wrap around.
  uint32_t take(uint32_t tag);
  size_t entries() const { return runs_.size(); }
  // The first run of tags used equally often that begins at `first` or behind it.
  std::optional<TagRun> next_run(uint64_t first) const;
  // Whether each of the tags has been used exactly so often.
  bool holds(const TagRun& run) const;
  // Tags that holds() is true of count from the first number again.
  void forget(const TagRun& run);

 private:
  struct Run {
    uint64_t end = 0;  // the first tag behind it
    uint32_t count = 0;
  };
  using Runs = std::map<uint64_t, Run>;  // by first tag; a tag in none has `first_`

  Runs::iterator isolate(uint32_t tag);

  const uint32_t first_;
  Runs runs_;
};

}  // namespace rocecoll
