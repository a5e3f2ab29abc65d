// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <sys/random.h>

#include "base/check.h"

namespace rocecoll {

uint64_t EntropyId() {
  uint64_t id = 0;
  while (id == 0) {
    // Requests of up to 256 bytes are never cut short or interrupted (getrandom(2)).
    ROCECOLL_CHECK(getrandom(&id, sizeof(id), 0) == sizeof(id));
  }
  return id;
}

}  // namespace rocecoll
