// SPDX-License-Identifier: Apache-2.0
// Decides the options that are "auto" and follow from other options. rocecoll/options.py has by
// then decided those that follow from the machine's processors. The transports decide per peer
// whether RoCE carries a pair, and by which GID.
#pragma once

#include "runtime/option_value.h"
#include "runtime/runtime.h"

namespace rocecoll {

// Silence after which a rank is lost, unless UDP is all there is. Soft-RoCE and many NICs do not
// tell that a peer has died, so users of RoCE wait for this; over UDP the kernel or the peer's host
// mostly tells at once.
inline constexpr Duration kRocePeerTimeout = std::chrono::seconds(4);

// Every option of the table: as named, otherwise its default. `shm`, which ranks compare when they
// meet, is decided.
OptionValues WithDefaults(OptionValues named);

// Sets the fields of all options that `read` does not name or names as auto. Those of the others
// are set already.
void ResolveAutos(const OptionValues& read, RuntimeOptions& options);

}  // namespace rocecoll
