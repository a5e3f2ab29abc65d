// SPDX-License-Identifier: Apache-2.0
// Values of options, their text, and the kinds that say which of them are acceptable.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "collectives/collective.h"
#include "transport/datagram/fault_options.h"

namespace rocecoll {

using PortRange = std::pair<uint64_t, uint64_t>;  // 0, 0: any port
// std::monostate is "auto". Lists (of algorithms, faults, backends) are text.
using OptionValue = std::variant<std::monostate, bool, uint64_t, double, std::string, PortRange>;
using OptionValues = std::map<std::string, OptionValue>;

// As a variable of the environment would say it.
std::string TextOf(const OptionValue& value);

// What an option accepts.
struct OptionKind {
  std::string accepted;  // for messages
  std::string type;      // of its values, in Python; text is taken, too
  // Parses text without surrounding spaces; returns nothing if it is not acceptable.
  std::function<std::optional<OptionValue>(std::string_view)> parse;
  // Says what is wrong with refused text, where `accepted` does not tell everything; or null.
  std::function<std::string(std::string_view)> explain = nullptr;
};

OptionKind Switch();
OptionKind Integer(uint64_t low, uint64_t high);
OptionKind Number(double low, double high);
OptionKind AnyText(std::string accepted);
OptionKind Choice(const std::vector<std::string>& choices);
OptionKind IntegerChoice(const std::vector<uint64_t>& choices);
OptionKind Ports();
OptionKind Faults();
OptionKind Algorithms();
OptionKind Backends();  // of torch that rocecoll can replace
OptionKind OrAuto(const OptionKind& kind);

// Names by collective; empty: chosen by size. The same on every rank.
using AlgorithmTable = std::array<std::string, kCollectiveTraits.size()>;

// Text that Faults() and Algorithms() accept; nothing for other text, such as names of algorithms
// that do not exist.
std::optional<FaultOptions> ParseFaults(std::string_view text);
std::optional<AlgorithmTable> ParseAlgorithms(std::string_view text);

}  // namespace rocecoll
