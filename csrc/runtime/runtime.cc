// SPDX-License-Identifier: Apache-2.0
#include "runtime/runtime.h"

#include <new>
#include <system_error>
#include <utility>

#include "runtime/open_transport.h"
#include "transport/datagram/udp/udp_address.h"

namespace rocecoll {
namespace {

// Beyond the peer timeout, after which links give up by themselves: an outage that the peers
// survive must not lose the last messages.
constexpr Duration kLingerMargin = std::chrono::seconds(1);

// Sockets and the like do not say whose they are.
Status Named(const Status& status) {
  constexpr std::string_view kPrefix = "rocecoll: ";
  if (status.message().starts_with(kPrefix)) return status;
  return Status(status.code(), std::string(kPrefix) + status.message());
}

}  // namespace

Result<std::unique_ptr<Progress>> StartRuntime(const RuntimeOptions& options) {
  try {
    auto transport = OpenTransport(options);
    if (!transport.ok()) return Named(transport.status());
    ProgressOptions progress = options.progress;
    progress.final_linger = options.connection.peer_timeout + kLingerMargin;
    return std::make_unique<Progress>(transport.take(), options.engine, progress);
  } catch (const std::system_error& error) {
    return Status(StatusCode::kInternal,
                  std::string("rocecoll: the progress thread did not start: ") + error.what());
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kInternal,
                  "rocecoll: the runtime did not start: out of memory or file descriptors");
  } catch (const CheckFailure& failure) {
    return Status(StatusCode::kInternal, failure.what());
  }
}

Result<Address> ParseAddress(std::string_view text) { return ParseUdpAddress(text); }

}  // namespace rocecoll
