// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/hca_filter.h"

#include <charconv>

namespace rocecoll {
namespace {

Status Refuse(std::string_view text, const std::string& why) {
  return Status(StatusCode::kInvalidArgument,
                "the RDMA devices \"" + std::string(text) + "\" cannot be read: " + why +
                    "; accepted are names or prefixes with an optional port, separated by commas, "
                    "after ^ to exclude them and = for whole names, as in \"mlx5_0:1,mlx5_1\" or "
                    "\"^=rxe0\"");
}

bool TakePrefix(std::string_view& text, char prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

Result<HcaFilter> HcaFilter::Parse(std::string_view text) {
  HcaFilter filter;
  if (text.empty()) return filter;
  std::string_view rest = text;
  filter.excludes_ = TakePrefix(rest, '^');
  filter.exact_ = TakePrefix(rest, '=');
  for (bool last = false; !last;) {
    const size_t comma = rest.find(',');
    last = comma == std::string_view::npos;
    const std::string_view item = rest.substr(0, comma);
    if (!last) rest.remove_prefix(comma + 1);

    const size_t colon = item.find(':');
    Item parsed{std::string(item.substr(0, colon)), std::nullopt};
    if (parsed.name.empty()) return Refuse(text, "a name is empty");
    if (parsed.name.find_first_of("^= ") != std::string::npos) {
      return Refuse(text, "\"" + parsed.name + "\" is no name");
    }
    if (colon != std::string_view::npos) {
      const std::string_view number = item.substr(colon + 1);
      uint32_t port = 0;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), port);
      if (error != std::errc() || end != number.data() + number.size() || port < 1 || port > 255) {
        return Refuse(text, "\"" + std::string(number) + "\" is no port number");
      }
      parsed.port = port;
    }
    filter.items_.push_back(std::move(parsed));
  }
  return filter;
}

std::optional<size_t> HcaFilter::rank(std::string_view device, uint32_t port) const {
  if (items_.empty()) return 0;
  for (size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    const bool named = exact_ ? device == item.name : device.starts_with(item.name);
    if (!named || item.port.value_or(port) != port) continue;
    if (excludes_) return std::nullopt;
    return i;
  }
  if (excludes_) return 0;
  return std::nullopt;
}

}  // namespace rocecoll
