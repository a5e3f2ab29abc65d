// SPDX-License-Identifier: Apache-2.0
// Every option: its name, what it accepts, its default and what it is for. Python shows this table,
// reads the variables of the environment and gives typed values back.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "runtime/option_alias.h"
#include "runtime/option_value.h"
#include "runtime/runtime.h"

namespace rocecoll {

struct Option {
  std::string name;  // of rocecoll.Options(name=...); the variable is ROCECOLL_<NAME>
  OptionKind kind;
  OptionValue default_value;
  std::string unit;
  std::string doc;
  // Stores a value in its field; null for options that only Python uses.
  std::function<void(RuntimeOptions&, const OptionValue&)> set;
  bool process_wide = false;  // cannot differ between groups
  bool must_agree = false;    // on all ranks of a group, which compare it when they meet
  std::vector<OptionAlias> aliases = {};  // the first one that is set counts

  // Accepts text, or a typed value whose text is acceptable. The message of a refusal begins with
  // `origin`, which says where the value comes from.
  Result<OptionValue> read(const OptionValue& given, const std::string& origin) const;
};

const std::vector<Option>& OptionTable();

const Option* FindOption(std::string_view name);  // null: there is none

// What is not named has its default, and nothing is auto any more (resolve_autos.h). Takes also
// what no user sets: host, plugin, heartbeat_interval and the place of the process.
Result<RuntimeOptions> MakeRuntimeOptions(const OptionValues& values);

}  // namespace rocecoll
