// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/shm/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "base/system_error.h"

namespace rocecoll {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
// MFD_NOEXEC_SEAL, which older headers lack: the memory cannot be executed. Without this flag a
// system may refuse (vm.memfd_noexec=2) or complain in its log. Linux before 6.3 does not know the
// flag.
constexpr unsigned kNotExecutable = 0x8;

int CreateMemory() {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int descriptor = ::memfd_create("rocecoll", flags | kNotExecutable);
  return descriptor < 0 && errno == EINVAL ? ::memfd_create("rocecoll", flags) : descriptor;
}

// A memfd is not charged for pages before they are touched. If the system commits no more memory
// than it has (vm.overcommit_memory=2), such a touch can fail, and it ends the process with SIGBUS.
bool EveryPageMayBeRefused() {
  static const bool refused = [] {
    const Descriptor file(::open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC));
    char mode = '2';
    return !file.valid() || ::read(file, &mode, 1) != 1 || mode == '2';
  }();
  return refused;
}

}  // namespace

SharedSegment::~SharedSegment() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

SharedSegment& SharedSegment::operator=(SharedSegment&& other) noexcept {
  if (this == &other) return *this;
  if (data_ != nullptr) ::munmap(data_, size_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  descriptor_ = std::move(other.descriptor_);
  return *this;
}

Result<SharedSegment> SharedSegment::Create(size_t bytes, size_t ready_bytes) {
  SharedSegment segment;
  segment.descriptor_ = Descriptor(CreateMemory());
  if (!segment.descriptor_.valid()) return SystemError("no shared memory (memfd_create)");
  if (EveryPageMayBeRefused()) ready_bytes = bytes;
  const int error =
      ::ftruncate(segment.descriptor_, static_cast<off_t>(bytes)) != 0
          ? errno
          : ::posix_fallocate(segment.descriptor_, 0, static_cast<off_t>(ready_bytes));
  if (error != 0)
    return SystemError("no shared memory of " + std::to_string(bytes) + " bytes", error);
  if (::fcntl(segment.descriptor_, F_ADD_SEALS, kSeals) != 0) {
    return SystemError("cannot seal shared memory");
  }
  if (Status status = segment.map(segment.descriptor_, bytes); !status.ok()) return status;
  return segment;
}

Result<SharedSegment> SharedSegment::Map(Descriptor descriptor, size_t bytes) {
  struct stat facts{};
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(descriptor, &facts) != 0 ||
      facts.st_size != static_cast<off_t>(bytes)) {
    return Status(StatusCode::kNetwork, "the peer's shared memory is not as it should be");
  }
  SharedSegment segment;
  if (Status status = segment.map(descriptor, bytes); !status.ok()) return status;
  return segment;
}

Status SharedSegment::map(int descriptor, size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) return SystemError("cannot map shared memory");
  data_ = static_cast<std::byte*>(data);
  size_ = bytes;
  return {};
}

}  // namespace rocecoll
