// SPDX-License-Identifier: Apache-2.0
// Which devices and ports the user allows, in NCCL's grammar: names or prefixes of names, each with
// an optional port, separated by commas. A leading ^ excludes them; a leading = (after ^, if both
// are there) requires whole names. "mlx5", "=mlx5_0:1,mlx5_1:1", "^rxe0".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace rocecoll {

class HcaFilter {
 public:
  // Returns kInvalidArgument for text that does not follow this grammar.
  static Result<HcaFilter> Parse(std::string_view text);

  // The port's position in the order of preference, 0 first; empty if the port is excluded.
  std::optional<size_t> rank(std::string_view device, uint32_t port) const;
  // True if the option asks for some devices and does not only exclude some.
  bool names_devices() const { return !items_.empty() && !excludes_; }

 private:
  struct Item {
    std::string name;
    std::optional<uint32_t> port;  // any
  };

  bool excludes_ = false;
  bool exact_ = false;
  std::vector<Item> items_;  // none: everything is allowed
};

}  // namespace rocecoll
