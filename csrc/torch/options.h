// SPDX-License-Identifier: Apache-2.0
// rocecoll.Options: what init_process_group(pg_options=...) takes and Backend.options gives back.
#pragma once

#include <map>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace rocecoll::torch_adapter {

struct Options : c10d::Backend::Options {
  using Settings = std::map<std::string, std::string>;

  explicit Options(Settings chosen)
      : c10d::Backend::Options("rocecoll"), settings(std::move(chosen)) {}
  Options(const Options&) = default;

  // "Options(lane_bytes='65536')", which in Python makes equal options.
  std::string text() const;
  bool same_choice(const Options& other) const {
    return settings == other.settings && timeout == other.timeout;
  }

  // Options that were chosen, as text that rocecoll/options.py has checked; the others come from
  // the environment.
  const Settings settings;
};

}  // namespace rocecoll::torch_adapter
