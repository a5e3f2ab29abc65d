// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "base/check.h"
#include "collectives/reduce.h"
#include "transport/intake.h"

namespace rocecoll {

// A received vector that is reduced with this rank's own as it arrives.
class IncomingReduction final : public Intake {
 public:
  IncomingReduction() = default;
  IncomingReduction(DataType type, ReduceOp op, bool received_is_left, const std::byte* own,
                    std::byte* sum, size_t bytes)
      : type_(type),
        op_(op),
        received_is_left_(received_is_left),
        own_(own),
        sum_(sum),
        bytes_(bytes) {}

  void take(std::span<const std::byte> received) override {
    const size_t element_bytes = SizeOf(type_);
    ROCECOLL_CHECK(received.size() <= bytes_ - taken_ && received.size() % element_bytes == 0);
    const std::byte* own = own_ + taken_;
    Reduce(type_, op_, received_is_left_ ? received.data() : own,
           received_is_left_ ? own : received.data(), sum_ + taken_,
           received.size() / element_bytes);
    taken_ += received.size();
  }
  size_t taken_bytes() const override { return taken_; }

  // Everything has landed: what has not been taken lies in `slice`, at its place.
  void take_rest(const std::byte* slice) { take({slice + taken_, bytes_ - taken_}); }

 private:
  DataType type_{};
  ReduceOp op_{};
  bool received_is_left_ = false;
  const std::byte* own_ = nullptr;
  std::byte* sum_ = nullptr;
  size_t bytes_ = 0;
  size_t taken_ = 0;
};

}  // namespace rocecoll
