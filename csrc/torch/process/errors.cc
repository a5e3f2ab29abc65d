// SPDX-License-Identifier: Apache-2.0
#include "torch/process/errors.h"

#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>

#include "base/named_status.h"
#include "interpreter/exception_table.h"

namespace rocecoll::torch_adapter {
namespace {

template <typename Exception>
std::exception_ptr Make(const Status& status) {
  return std::make_exception_ptr(
      Exception({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, status.message()));
}

}  // namespace

std::exception_ptr MakeException(const Status& status) {
  ROCECOLL_CHECK(!status.ok());
  switch (BuiltinOf(status.code())) {
    case Builtin::kValueError:
      return Make<c10::ValueError>(status);
    case Builtin::kNotImplementedError:
      return Make<c10::NotImplementedError>(status);
    case Builtin::kOSError:
      return Make<c10::DistNetworkError>(status);
    default:
      return Make<c10::DistBackendError>(status);
  }
}

void Throw(const Status& status) { std::rethrow_exception(MakeException(status)); }

void Raise(const Status& status) {
  const bool of_value = BuiltinOf(status.code()) == Builtin::kValueError;
  if (of_value) throw pybind11::value_error(status.message());
  throw std::runtime_error(status.message());
}

Progress& ProgressOf(const Runtime& runtime) {
  if (!runtime.forked()) return runtime.progress();
  Throw(NamedStatus(
      StatusCode::kAborted,
      "this process was forked from the one that made the process group, and "
      "cannot use it (the thread and the connections stayed there). Start such a process "
      "by the spawn or forkserver method and call init_process_group in it"));
}

}  // namespace rocecoll::torch_adapter
