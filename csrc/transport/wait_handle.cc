// SPDX-License-Identifier: Apache-2.0
#include "transport/wait_handle.h"

namespace rocecoll {

WaitHandle WaitHandle::joined(const WaitHandle& other) const {
  ROCECOLL_CHECK(count_ + other.count_ <= kMostDescriptors);
  WaitHandle both = *this;
  for (const int descriptor : other.descriptors()) both.descriptors_[both.count_++] = descriptor;
  return both;
}

}  // namespace rocecoll
