// SPDX-License-Identifier: Apache-2.0
#include "runtime/runtime.h"

#include <new>
#include <system_error>
#include <utility>

#include "base/named_status.h"
#include "base/open_files.h"
#include "runtime/open_transport.h"
#include "transport/datagram/udp/udp_address.h"

namespace rocecoll {
namespace {

// Waiting at the end goes on for this long after the peer timeout, at which links give up: an
// outage that the peers survive must not lose the last messages.
constexpr Duration kLingerMargin = std::chrono::seconds(1);

// Descriptors that a runtime has open at once, some of them only briefly: sockets, what its threads
// sleep on, a device. Each neighbour on this host takes one more.
constexpr size_t kOpenFiles = 16;

Status Named(const Status& status) { return NamedStatus(status.code(), status.message()); }

}  // namespace

Result<std::unique_ptr<Progress>> StartRuntime(const RuntimeOptions& options, RoceUse* roce) {
  try {
    const Status room = RequireOpenFiles(kOpenFiles + options.local_ranks);
    if (!room.ok()) return Named(room);
    auto transport = OpenTransport(options, roce);
    if (!transport.ok()) return Named(transport.status());
    ProgressOptions progress = options.progress;
    progress.final_linger = options.connection.peer_timeout + kLingerMargin;
    auto started = Progress::Start(transport.take(), options.engine, progress);
    if (!started.ok()) return Named(started.status());
    return started;
  } catch (const std::system_error& error) {
    return NamedStatus(StatusCode::kInternal,
                       std::string("the progress thread did not start: ") + error.what());
  } catch (const std::bad_alloc&) {
    return NamedStatus(StatusCode::kInternal, "the runtime did not start: out of memory");
  } catch (const CheckFailure& failure) {
    return Status(StatusCode::kInternal, failure.what());
  }
}

Result<Address> ParseAddress(std::string_view text) { return ParseUdpAddress(text); }

}  // namespace rocecoll
