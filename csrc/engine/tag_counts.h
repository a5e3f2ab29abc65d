// SPDX-License-Identifier: Apache-2.0
// How often each of a user's tags has been used. Neighbouring tags that were used equally often are
// one entry: a program that counts its tags up, or goes through a range of them in any order, needs
// a few entries, however many tags it uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace rocecoll {

class TagCounts {
 public:
  uint32_t count(uint32_t tag) const;
  // Counts one use; returns how many there were before. Counts wrap around.
  uint32_t take(uint32_t tag);
  size_t entries() const { return runs_.size(); }

 private:
  struct Run {
    uint64_t end = 0;  // the first tag behind it
    uint32_t count = 0;
  };
  using Runs = std::map<uint64_t, Run>;  // by first tag; a tag in none was never used

  Runs::iterator isolate(uint32_t tag);

  Runs runs_;
};

}  // namespace rocecoll
