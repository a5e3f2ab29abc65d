// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/shm/shm_end.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <span>

#include "base/bytes.h"
#include "base/descriptor.h"
#include "base/hash.h"
#include "transport/fast_paths/shm/doorbell.h"

namespace rocecoll {
namespace {

constexpr size_t kWireBytes = 48;
static_assert(kWireBytes <= Address::kMaxBytes);

uint64_t BootId() {
  const Descriptor file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  std::array<uint64_t, 5> text{};  // 36 characters
  if (!file.valid() || ::read(file, text.data(), sizeof(text)) < 36) return 0;
  return HashWords({text[0], text[1], text[2], text[3], text[4]});
}

}  // namespace

HostFacts HostFacts::Read() {
  struct stat network{};
  const bool known = ::stat("/proc/self/ns/net", &network) == 0;
  return {BootId(), known ? network.st_ino : 0};
}

std::string HostFacts::Obstacle(const HostFacts& own, const HostFacts& peer) {
  if (own.boot != peer.boot) return "it runs on another host";
  if (own.network != peer.network) return "it is in another network namespace";
  return {};
}

Address ShmEnd::address() const {
  std::array<std::byte, kWireBytes> bytes{};
  ByteWriter writer(bytes);
  for (const uint64_t word : {socket[0], socket[1], nonce, slot, host.boot, host.network}) {
    writer.Write(word);
  }
  return {bytes, "shared memory"};
}

std::optional<ShmEnd> ShmEnd::Parse(const Address& address) {
  if (address.bytes().size() != kWireBytes) return std::nullopt;
  ByteReader reader(address.bytes());
  ShmEnd end;
  for (uint64_t* word :
       {&end.socket[0], &end.socket[1], &end.nonce, &end.slot, &end.host.boot, &end.host.network}) {
    *word = reader.Read<uint64_t>();
  }
  if (end.slot >= DoorbellPage::kSlots) return std::nullopt;
  return end;
}

}  // namespace rocecoll
