// SPDX-License-Identifier: Apache-2.0
#include "base/open_files.h"

#include <sys/eventfd.h>
#include <sys/resource.h>

#include <cerrno>
#include <vector>

#include "base/descriptor.h"
#include "base/system_error.h"

namespace rocecoll {

std::string TooManyOpenFiles(size_t missing) {
  constexpr size_t kSpare = 32;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const size_t enough = (limit.rlim_cur + missing + kSpare) / kSpare * kSpare + kSpare;
  return "too many open files: this process may have " + std::to_string(limit.rlim_cur) +
         " and needs about " + std::to_string(enough) + "; raise `ulimit -n`";
}

Status RequireOpenFiles(size_t count) {
  std::vector<Descriptor> opened;
  opened.reserve(count);
  while (opened.size() < count) {
    Descriptor one(eventfd(0, EFD_CLOEXEC));
    if (!one.valid() && errno == EMFILE) {
      return Status(StatusCode::kNetwork, TooManyOpenFiles(count - opened.size()));
    }
    if (!one.valid()) return SystemError("cannot open files");
    opened.push_back(std::move(one));
  }
  return {};
}

}  // namespace rocecoll
