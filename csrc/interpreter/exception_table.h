// SPDX-License-Identifier: Apache-2.0
// Which Python exception each kind of failure is. _core raises a class of its own that derives from
// the builtin one; _c10d raises torch's nearest.
#pragma once

#include <array>

#include "base/enum_table.h"
#include "base/status.h"

namespace rocecoll {

enum class Builtin : uint8_t {
  kRuntimeError,
  kValueError,
  kTimeoutError,
  kConnectionError,
  kOSError,
  kNotImplementedError
};

struct ExceptionTraits {
  StatusCode code;
  Builtin builtin;
  const char* name;  // of the class in rocecoll._core; null: no failure
  const char* doc;
};

inline constexpr auto kExceptionTraits = std::to_array<ExceptionTraits>({
    {StatusCode::kOk, Builtin::kRuntimeError, nullptr, ""},
    {StatusCode::kInvalidArgument, Builtin::kValueError, "InvalidArgumentError",
     "Refused before anything was sent."},
    {StatusCode::kMismatch, Builtin::kRuntimeError, "MismatchError",
     "Ranks called different operations, or with different arguments."},
    {StatusCode::kTimeout, Builtin::kTimeoutError, "OperationTimeoutError",
     "The deadline of an operation or a connection passed."},
    {StatusCode::kPeerLost, Builtin::kConnectionError, "PeerLostError",
     "A rank died or became unreachable."},
    {StatusCode::kPeerLeft, Builtin::kConnectionError, "PeerLeftError",
     "A rank closed its side in good order while it was still needed."},
    {StatusCode::kNoContact, Builtin::kConnectionError, "NoContactError",
     "Nothing ever came from a rank: a firewall, the wrong interface, or it died early."},
    {StatusCode::kAborted, Builtin::kRuntimeError, "AbortedError", "Some rank aborted the group."},
    {StatusCode::kNetwork, Builtin::kOSError, "NetworkError",
     "The local network or socket refused to work."},
    {StatusCode::kUnsupported, Builtin::kNotImplementedError, "UnsupportedError",
     "Not offered for these arguments."},
    {StatusCode::kDevice, Builtin::kRuntimeError, "DeviceError",
     "An accelerator's runtime refused to work."},
    {StatusCode::kInternal, Builtin::kRuntimeError, "InternalError", "A bug in rocecoll."},
});
static_assert(HasRowForEach(kExceptionTraits, &ExceptionTraits::code));

constexpr Builtin BuiltinOf(StatusCode code) { return RowOf(kExceptionTraits, code).builtin; }

}  // namespace rocecoll
