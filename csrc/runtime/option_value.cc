// SPDX-License-Identifier: Apache-2.0
#include "runtime/option_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <type_traits>

#include "base/text.h"
#include "collectives/selector.h"

namespace rocecoll {
namespace {

using Pairs = std::map<std::string, std::string, std::less<>>;

template <typename T>
std::optional<T> ParseNumber(std::string_view text, T low, T high) {
  T value{};
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto parsed = std::from_chars(begin, end, value);
  // So that NaN is refused, too.
  if (parsed.ec != std::errc() || parsed.ptr != end || !(low <= value && value <= high)) return {};
  return value;
}

std::string NumberText(double value) {
  std::array<char, 512> digits;  // the largest and the smallest have more than 300
  const auto end = std::to_chars(digits.begin(), digits.end(), value, std::chars_format::fixed);
  return {digits.data(), end.ptr};
}

// The parts of `text` between commas, but for empty ones.
std::vector<std::string_view> Parts(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    if (const auto part = Trimmed(text.substr(0, comma)); !part.empty()) parts.push_back(part);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

// "a=1,b=2" by name; each once, with a value.
std::optional<Pairs> ParsePairs(std::string_view text, char separator) {
  Pairs pairs;
  for (const std::string_view part : Parts(text)) {
    const size_t at = part.find(separator);
    if (at == part.npos) return {};
    const std::string_view value = Trimmed(part.substr(at + 1));
    if (value.empty() || !pairs.emplace(Trimmed(part.substr(0, at)), value).second) return {};
  }
  return pairs;
}

std::optional<OptionValue> ParsePorts(std::string_view text) {
  constexpr uint64_t kMax = 65535;
  const size_t dash = std::min(text.find('-'), text.size());
  const auto low = ParseNumber<uint64_t>(Trimmed(text.substr(0, dash)), 0, kMax);
  const auto high =
      dash == text.size() ? low : ParseNumber<uint64_t>(Trimmed(text.substr(dash + 1)), 0, kMax);
  if (!low || !high || *low > *high || (*low == 0 && *high != 0)) return {};
  return PortRange(*low, *high);
}

template <typename Names>
std::string Joined(const Names& names, const std::string& last) {
  std::string list;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) list += i + 1 < names.size() ? ", " : last;
    list += names[i];
  }
  return list;
}

// A message between two ranks has no choice of algorithms.
constexpr bool HasAlgorithms(const CollectiveTraits& traits) {
  return traits.flow != Flow::kToPeer && traits.flow != Flow::kFromPeer;
}

bool Exists(Collective collective, std::string_view algorithm) {
  const auto names = AlgorithmNames(collective);
  return std::ranges::find(names, algorithm) != names.end();
}

// Names the first algorithm that does not exist, and those that do.
std::string ExplainAlgorithms(std::string_view text) {
  const auto pairs = ParsePairs(text, ':');
  if (!pairs) return "";
  for (const CollectiveTraits& traits : kCollectiveTraits) {
    const auto pair = pairs->find(traits.call);
    if (!HasAlgorithms(traits) || pair == pairs->end()) continue;
    if (Exists(traits.collective, pair->second)) continue;
    return std::string(traits.call) + " has no algorithm '" + pair->second + "', it has " +
           Joined(AlgorithmNames(traits.collective), " and ");
  }
  return "";
}

// In the order of the collectives, so that lists of the same are the same text.
std::string AlgorithmText(const AlgorithmTable& table) {
  std::vector<std::string> chosen;
  for (const CollectiveTraits& traits : kCollectiveTraits) {
    const std::string& name = table[static_cast<size_t>(traits.collective)];
    if (!name.empty()) chosen.push_back(std::string(traits.call) + ":" + name);
  }
  return Joined(chosen, ",");
}

const std::set<std::string, std::less<>> kReplaceable{"gloo", "nccl"};

}  // namespace

std::string TextOf(const OptionValue& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, std::monostate>) return "auto";
        if constexpr (std::is_same_v<T, bool>) return held ? "1" : "0";
        if constexpr (std::is_same_v<T, uint64_t>) return std::to_string(held);
        if constexpr (std::is_same_v<T, double>) return NumberText(held);
        if constexpr (std::is_same_v<T, std::string>) return held;
        if constexpr (std::is_same_v<T, PortRange>) {
          return std::to_string(held.first) + "-" + std::to_string(held.second);
        }
      },
      value);
}

OptionKind Switch() {
  return {"0 or 1", "bool", [](std::string_view given) -> std::optional<OptionValue> {
            const std::string text = LowerCase(given);
            if (text == "1" || text == "true" || text == "on") return true;
            if (text == "0" || text == "false" || text == "off") return false;
            return {};
          }};
}

OptionKind Integer(uint64_t low, uint64_t high) {
  return {"a whole number from " + std::to_string(low) + " to " + std::to_string(high), "int",
          [low, high](std::string_view text) { return ParseNumber<uint64_t>(text, low, high); }};
}

OptionKind Number(double low, double high) {
  return {"a number from " + NumberText(low) + " to " + NumberText(high), "float",
          [low, high](std::string_view text) { return ParseNumber<double>(text, low, high); }};
}

OptionKind AnyText(std::string accepted) {
  return {std::move(accepted), "str", [](std::string_view text) { return std::string(text); }};
}

OptionKind Choice(const std::vector<std::string>& choices) {
  const std::string accepted = Joined(choices, " or ");
  return {accepted, "str", [choices](std::string_view text) -> std::optional<OptionValue> {
            const auto found = std::ranges::find(choices, LowerCase(text));
            if (found == choices.end()) return {};
            return *found;
          }};
}

OptionKind IntegerChoice(const std::vector<uint64_t>& choices) {
  std::vector<std::string> texts(choices.size());
  std::ranges::transform(choices, texts.begin(), [](uint64_t n) { return std::to_string(n); });
  return {Joined(texts, " or "), "int",
          [choices](std::string_view text) -> std::optional<OptionValue> {
            const auto value = ParseNumber<uint64_t>(text, 0, choices.back());
            if (!value || !std::ranges::count(choices, *value)) return {};
            return *value;
          }};
}

OptionKind Ports() {
  return {"LOW-HIGH with 1 <= LOW <= HIGH <= 65535, or 0", "tuple[int, int]", ParsePorts};
}

OptionKind Faults() {
  return {"loss=, duplicate=, reorder=, corrupt= (0 to 1), delay_us=, seed= separated by commas",
          "str", [](std::string_view text) -> std::optional<OptionValue> {
            if (!ParseFaults(text)) return {};
            return std::string(text);
          }};
}

OptionKind Algorithms() {
  std::vector<std::string> collectives;
  for (const CollectiveTraits& traits : kCollectiveTraits) {
    if (HasAlgorithms(traits)) collectives.emplace_back(traits.call);
  }
  return {"COLLECTIVE:ALGORITHM separated by commas; collectives: " + Joined(collectives, ", "),
          "str",
          [](std::string_view text) -> std::optional<OptionValue> {
            const auto table = ParseAlgorithms(text);
            if (!table) return {};
            return AlgorithmText(*table);
          },
          ExplainAlgorithms};
}

OptionKind Backends() {
  return {"gloo, nccl or both separated by a comma", "str",
          [](std::string_view given) -> std::optional<OptionValue> {
            const std::string text = LowerCase(given);
            std::set<std::string> names;
            for (const std::string_view name : Parts(text)) {
              if (!kReplaceable.contains(name)) return {};
              names.emplace(name);
            }
            return Joined(std::vector(names.begin(), names.end()), ",");
          }};
}

OptionKind OrAuto(const OptionKind& kind) {
  return {"auto, or " + kind.accepted, kind.type + " | None",
          [parse = kind.parse](std::string_view text) -> std::optional<OptionValue> {
            if (LowerCase(text) == "auto") return std::monostate();
            return parse(text);
          }};
}

std::optional<FaultOptions> ParseFaults(std::string_view text) {
  const auto pairs = ParsePairs(text, '=');
  if (!pairs) return {};
  FaultOptions faults;
  const std::map<std::string_view, double*> chances{{"loss", &faults.loss},
                                                    {"duplicate", &faults.duplicate},
                                                    {"reorder", &faults.reorder},
                                                    {"corrupt", &faults.corrupt}};
  const auto store = [](auto& field, auto parsed) {
    if (parsed) field = *parsed;
    return parsed.has_value();
  };
  for (const auto& [name, value] : *pairs) {
    double delay_us = 0;
    bool good = false;
    if (const auto chance = chances.find(name); chance != chances.end()) {
      good = store(*chance->second, ParseNumber<double>(value, 0, 1));
    } else if (name == "delay_us") {
      good = store(delay_us, ParseNumber<double>(value, 0, 1e9));
      faults.delay = Duration(std::llround(delay_us * 1e3));
    } else if (name == "seed") {
      good = store(faults.seed, ParseNumber<uint64_t>(value, 0, UINT64_MAX));
    }
    if (!good) return {};
  }
  return faults;
}

std::optional<AlgorithmTable> ParseAlgorithms(std::string_view text) {
  const auto pairs = ParsePairs(text, ':');
  if (!pairs) return {};
  AlgorithmTable table;
  size_t known = 0;
  for (const CollectiveTraits& traits : kCollectiveTraits) {
    const auto pair = pairs->find(traits.call);
    if (!HasAlgorithms(traits) || pair == pairs->end()) continue;
    if (!Exists(traits.collective, pair->second)) return {};
    table[static_cast<size_t>(traits.collective)] = pair->second;
    ++known;
  }
  if (known != pairs->size()) return {};
  return table;
}

}  // namespace rocecoll
