// SPDX-License-Identifier: Apache-2.0
// Errors as values. A Status says what happened; a Result<T> is a value, or the Status that says
// why there is none.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/enum_table.h"
#include "base/rank.h"

namespace rocecoll {

// The numbers are sent over the wire.
enum class StatusCode : uint8_t {
  kOk = 0,
  kInvalidArgument,  // refused before anything was sent
  kMismatch,         // ranks called different operations, or with different arguments
  kTimeout,          // the deadline of an operation or of a connection passed
  kPeerLost,         // a rank died or became unreachable
  kPeerLeft,         // a rank closed its side in good order
  kNoContact,        // nothing ever came from a rank
  kAborted,          // the user, or another rank, aborted the group
  kNetwork,          // the local network or socket refused to work
  kUnsupported,      // not offered for these arguments
  kDevice,           // an accelerator's runtime refused to work
  kInternal,         // a bug in rocecoll
};

struct StatusCodeTraits {
  StatusCode code;
  std::string_view name;
};

inline constexpr auto kStatusCodeTraits = std::to_array<StatusCodeTraits>({
    {StatusCode::kOk, "ok"},
    {StatusCode::kInvalidArgument, "invalid argument"},
    {StatusCode::kMismatch, "mismatch"},
    {StatusCode::kTimeout, "timeout"},
    {StatusCode::kPeerLost, "peer lost"},
    {StatusCode::kPeerLeft, "peer left"},
    {StatusCode::kNoContact, "no contact"},
    {StatusCode::kAborted, "aborted"},
    {StatusCode::kNetwork, "network"},
    {StatusCode::kUnsupported, "unsupported"},
    {StatusCode::kDevice, "device"},
    {StatusCode::kInternal, "internal error"},
});
static_assert(HasRowForEach(kStatusCodeTraits, &StatusCodeTraits::code));

constexpr std::string_view ToString(StatusCode code) { return RowOf(kStatusCodeTraits, code).name; }

class [[nodiscard]] Status {
 public:
  Status() = default;
  // Cold, so that the compiler moves code that leads to an error out of the hot path.
  [[gnu::cold]] Status(StatusCode code, std::string message)
      : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  // The rank of the group that found this and reported it to this process; none if it was found
  // here.
  const std::optional<Rank>& reporter() const { return reporter_; }
  // This status with `rank` as its reporter, unless it has one already.
  Status reported_by(Rank rank) const {
    Status report = *this;
    if (!ok() && !reporter_) report.reporter_ = rank;
    return report;
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::optional<Rank> reporter_;
  std::string message_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}        // NOLINT: implicit
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {  // NOLINT: implicit
    ROCECOLL_CHECK(!std::get<1>(state_).ok());
  }

  bool ok() const { return state_.index() == 0; }
  T& value() {
    ROCECOLL_CHECK(ok());
    return std::get<0>(state_);
  }
  const T& value() const {
    ROCECOLL_CHECK(ok());
    return std::get<0>(state_);
  }
  T&& take() {
    ROCECOLL_CHECK(ok());
    return std::move(std::get<0>(state_));
  }
  Status status() const { return ok() ? Status() : std::get<1>(state_); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace rocecoll
