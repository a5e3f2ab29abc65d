// SPDX-License-Identifier: Apache-2.0
#include "torch/process/errors.h"

#include <c10/util/Exception.h>

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
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
      return Make<c10::ValueError>(status);
    case StatusCode::kUnsupported:
      return Make<c10::NotImplementedError>(status);
    case StatusCode::kNetwork:
      return Make<c10::DistNetworkError>(status);
    default:
      return Make<c10::DistBackendError>(status);
  }
}

void Throw(const Status& status) { std::rethrow_exception(MakeException(status)); }

Progress& ProgressOf(const Runtime& runtime) {
  if (!runtime.forked()) return runtime.progress();
  Throw(Status(StatusCode::kAborted,
               "rocecoll: this process was forked from the one that made the process group, and "
               "cannot use it (the thread and the connections stayed there). Start such a process "
               "by the spawn or forkserver method and call init_process_group in it"));
}

}  // namespace rocecoll::torch_adapter
