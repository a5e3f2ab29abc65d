// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <vector>

#include "transport/intake.h"

namespace rocecoll {

// Keeps what it takes.
class Gathering final : public Intake {
 public:
  void take(std::span<const std::byte> bytes) override {
    EXPECT_TRUE(whole_pieces_);
    whole_pieces_ = bytes.size() % kPieceBytes == 0;
    taken_.insert(taken_.end(), bytes.begin(), bytes.end());
  }
  size_t taken_bytes() const override { return taken_.size(); }
  const std::vector<std::byte>& taken() const { return taken_; }

 private:
  std::vector<std::byte> taken_;
  bool whole_pieces_ = true;  // all so far, as they have to be but for the last
};

}  // namespace rocecoll
