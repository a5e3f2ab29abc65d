// SPDX-License-Identifier: Apache-2.0
// A network plug-in for tests of who loads it and what follows. The devices asked for say what it
// finds: 4MiB is one that does nothing, in a process that may lock so much. It says
// that its version is FAKE_VERSIONS_BEHIND ours; FAKE_ENTRY is the name of its symbol.
#include <charconv>
#include <string>
#include <string_view>

#include "transport/plugin.h"

namespace rocecoll {
namespace {

Status NoDevice(const RdmaOptions& options) {
  StatusCode code = StatusCode::kUnsupported;
  if (options.hca == "broken") code = StatusCode::kNetwork;  // there is one, it refuses to work
  if (options.hca == "impossible") code = StatusCode::kInvalidArgument;
  const char* list = options.hca == "broken" ? ":\nfake0 is broken\nfake1, too" : "";
  return Status(code, "no device like \"" + options.hca + "\" for " + options.host + list);
}

class IdleDevice final : public RdmaDevice {
 public:
  explicit IdleDevice(uint64_t lockable_bytes) : lockable_bytes_(lockable_bytes) {}

  RdmaLimits limits() const override {
    RdmaLimits limits;
    limits.max_registered_bytes = lockable_bytes_;
    return limits;
  }
  const std::string& description() const override { return description_; }
  Result<MemoryRegion> register_memory(std::span<std::byte>, RemoteAccess) override {
    return Idle();
  }
  void deregister(const MemoryRegion&) override {}
  Result<std::unique_ptr<RdmaQueuePair>> create_queue_pair() override { return Idle(); }
  size_t post_receives(std::span<const ReceiveRequest>) override { return 0; }
  size_t poll(std::span<WorkCompletion>) override { return 0; }
  bool arm() override { return true; }
  WaitHandle wait_handle() override { return {}; }
  Status health() override { return {}; }

 private:
  static Status Idle() { return Status(StatusCode::kNetwork, "fake0 does nothing"); }

  const uint64_t lockable_bytes_;
  const std::string description_ = "fake0 port 1";
};

Result<RdmaDevices> OpenRdmaDevices(const RdmaOptions& options) {
  uint64_t mib = 0;
  const char* end = options.hca.data() + options.hca.size();
  const auto [rest, error] = std::from_chars(options.hca.data(), end, mib);
  if (error != std::errc() || std::string_view(rest, end) != "MiB") return NoDevice(options);
  RdmaDevices devices;
  devices.push_back(std::make_unique<IdleDevice>(mib << 20));
  return devices;
}

Result<std::unique_ptr<DatagramPort>> OpenDatagramPort(const RdmaOptions& options) {
  return NoDevice(options);
}

std::string DescribeOptions(const RdmaOptions& options) {
  return "fake0 port 1: not for " + options.host;
}

}  // namespace
}  // namespace rocecoll

extern "C" __attribute__((visibility("default"))) const rocecoll::NetworkPlugin* FAKE_ENTRY() {
  static const rocecoll::NetworkPlugin plugin = {
      rocecoll::NetworkPlugin::kVersion - FAKE_VERSIONS_BEHIND, "fake", &rocecoll::OpenRdmaDevices,
      &rocecoll::OpenDatagramPort, &rocecoll::DescribeOptions};
  return &plugin;
}
