// SPDX-License-Identifier: Apache-2.0
// rocecoll.Options: what init_process_group(pg_options=...) takes and Backend.options gives back.
#pragma once

#include <string>
#include <utility>

#include "runtime/option_value.h"
#include "torch/interface/c10d_interface.h"

namespace rocecoll::torch_adapter {

struct Options : OptionsInterface<Options> {
  explicit Options(OptionValues chosen)
      : OptionsInterface<Options>("rocecoll"), values(std::move(chosen)) {}
  Options(const Options&) = default;

  // "Options(lane_bytes='65536')", which in Python makes equal options.
  std::string text() const;
  bool same_choice(const Options& other) const {
    return values == other.values && timeout == other.timeout;
  }

  // Options that were chosen; the others come from the environment.
  const OptionValues values;
};

}  // namespace rocecoll::torch_adapter
