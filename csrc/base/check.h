// SPDX-License-Identifier: Apache-2.0
// Invariants that stay on in release builds.
//
// A failed check is a bug in rocecoll, never the response to bad input or a network fault. It
// throws CheckFailure, which the few entry points of the engine (step, submit, wait) catch on the
// same thread and turn into a kInternal status of every group: no exception crosses a thread or
// terminates the process.
#pragma once

#include <stdexcept>
#include <string>

namespace rocecoll {

class CheckFailure : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn, gnu::cold, gnu::noinline]] inline void FailCheck(const char* condition,
                                                             const char* file, int line) {
  throw CheckFailure(std::string(file) + ":" + std::to_string(line) +
                     ": check failed: " + condition);
}

}  // namespace rocecoll

#define ROCECOLL_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::rocecoll::FailCheck(#condition, __FILE__, __LINE__))
