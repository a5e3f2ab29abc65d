// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/shm/shm_device.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/system_error.h"
#include "transport/fast_paths/shm/memory_pull.h"

namespace rocecoll {
namespace {

// How many words of the socket, and events of epoll, are read at once.
constexpr int kWordsPerLook = 64;
constexpr int kEventsPerLook = 16;
// SYS_pidfd_open on every processor that torch has wheels for; glibc 2.28 lacks the name.
constexpr long kPidfdOpen = 434;

bool Watch(int epoll, int descriptor, void* what) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = what;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

}  // namespace

Result<std::unique_ptr<ShmDevice>> ShmDevice::Open(const ShmOptions& options) {
  auto socket = HostSocket::Open();
  if (!socket.ok()) return socket.status();
  auto doorbell = Doorbell::Create();
  if (!doorbell.ok()) return doorbell.status();
  Descriptor wait(::epoll_create1(EPOLL_CLOEXEC));
  if (!wait.valid() || !Watch(wait, socket.value().descriptor(), nullptr)) {
    return SystemError("no epoll");
  }
  if (options.fetch) AllowPulls();
  return std::unique_ptr<ShmDevice>(
      new ShmDevice(socket.take(), doorbell.take(), std::move(wait), options));
}

ShmDevice::ShmDevice(HostSocket socket, Doorbell doorbell, Descriptor wait,
                     const ShmOptions& options)
    : options_(options),
      socket_(std::move(socket)),
      doorbell_(std::move(doorbell)),
      wait_(std::move(wait)) {}

ShmDevice::~ShmDevice() = default;

std::unique_ptr<FastPath> ShmDevice::make_path() { return std::make_unique<ShmPath>(*this); }

std::optional<uint32_t> ShmDevice::add(ShmPath& path) {
  uint32_t slot = 0;
  if (!free_slots_.empty()) {
    slot = free_slots_.back();
    free_slots_.pop_back();
    paths_[slot] = &path;
    return slot;
  }
  if (paths_.size() == DoorbellPage::kSlots) return std::nullopt;
  paths_.push_back(&path);
  return static_cast<uint32_t>(paths_.size() - 1);
}

void ShmDevice::remove(uint32_t slot) {
  paths_[slot] = nullptr;
  std::erase(to_greet_, slot);  // the next path in this slot greets for itself
  free_slots_.push_back(slot);
}

void ShmDevice::keep_until_released(std::unique_ptr<ReceiveRing> ring) {
  kept_.push_back(std::move(ring));
}

void ShmDevice::begin_batch() {
  in_batch_ = true;
  if (std::exchange(armed_, false)) {
    doorbell_.awake();
    look_owed_ = true;
  }
  rung_.clear();
  rung_.swap(again_);
  next_ = 0;
  bell_told_ = false;
  doorbell_.take_rung([this](uint32_t slot) { rung_.push_back(slot); });
  if (expected_greetings_ > 0) look_outside();
  for (const uint32_t slot : std::exchange(to_greet_, {})) {
    ShmPath* path = path_at(slot);
    if (path != nullptr && !path->failed() && !path->greet_again()) to_greet_.push_back(slot);
  }
}

bool ShmDevice::poll(FastEvent& event) {
  if (!in_batch_) begin_batch();
  for (; next_ < rung_.size(); ++next_, bell_told_ = false) {
    ShmPath* path = path_at(rung_[next_]);
    if (path == nullptr) continue;
    if (!std::exchange(bell_told_, true) && path->on_bell(event)) return true;
    if (path->look(event)) return true;
  }
  in_batch_ = false;
  return false;
}

FastPath* ShmDevice::release(const FastLease& lease) {
  auto* ring = reinterpret_cast<ReceiveRing*>(lease.id);
  ROCECOLL_CHECK(ring->leases > 0);
  if (--ring->leases > 0) return nullptr;
  if (ring->path != nullptr) {
    ring->path->on_all_released();
  } else {
    std::erase_if(kept_, [ring](const auto& kept) { return kept.get() == ring; });
  }
  return nullptr;
}

bool ShmDevice::arm() {
  if (in_batch_ || !again_.empty() || !to_greet_.empty()) return false;
  if (look_owed_) {
    look_outside();
    return false;
  }
  armed_ = true;
  return doorbell_.fall_asleep();
}

Status ShmDevice::health(Instant /*now*/) {
  look_outside();
  return {};
}

void ShmDevice::look_outside() {
  look_owed_ = false;
  std::array<epoll_event, kEventsPerLook> events;
  const int count = ::epoll_wait(wait_, events.data(), kEventsPerLook, 0);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.ptr == nullptr) {
      receive_words();
    } else {
      on_end(static_cast<const PeerProcess*>(events[i].data.ptr));
    }
  }
}

void ShmDevice::receive_words() {
  for (int i = 0; i < kWordsPerLook; ++i) {
    std::optional<HostSocket::Received> received = socket_.receive();
    if (!received) return;
    if (received->greeting) on_greeting(*std::move(received));
  }
}

void ShmDevice::on_greeting(HostSocket::Received received) {
  ShmPath* path = path_at(received.greeting->slot);
  // Only the peer knows the nonce, so what is wrong with the rest is the peer's doing or the
  // system's.
  if (path == nullptr || path->nonce() != received.greeting->nonce) return;
  if (!received.obstacle.empty()) return path->refuse(std::string(received.obstacle));
  auto ring = SharedSegment::Map(std::move(received.ring), kRingSegmentBytes);
  if (!ring.ok()) return path->refuse(ring.status().message());
  if (RingWriter(ring.value().data()).header().magic != RingHeader::kMagic) {
    return path->refuse("the peer's shared memory is no ring");
  }
  const std::shared_ptr<PeerProcess> process = process_of(received);
  if (process == nullptr) return path->refuse("the peer's doorbell is not as it should be");
  path->on_greeting(process, ring.take());
}

// Null: its doorbell is not as it should be. If the process ends before its pidfd is opened, the
// pidfd may be that of another process with its number; but no probe can be fetched from that one.
std::shared_ptr<PeerProcess> ShmDevice::process_of(HostSocket::Received& received) {
  const HostSocketName& name = received.greeting->from;
  std::erase_if(processes_, [](const auto& process) { return process.expired(); });
  for (const auto& known : processes_) {
    if (auto process = known.lock(); process->name == name) return process;
  }
  auto bell = SharedSegment::Map(std::move(received.doorbell), DoorbellPage::kBytes);
  if (!bell.ok()) return nullptr;
  Descriptor end;
  if (received.process != 0) {
    end = Descriptor(static_cast<int>(::syscall(kPidfdOpen, received.process, 0)));
  }
  auto process = std::make_shared<PeerProcess>(name, received.process, PeerDoorbell(bell.take()),
                                               std::move(end));
  if (process->end.valid()) Watch(wait_, process->end, process.get());
  processes_.push_back(process);
  return process;
}

// Its paths notice once they have taken what it had sent.
void ShmDevice::on_end(const PeerProcess* ended) {
  for (const auto& known : processes_) {
    const auto process = known.lock();
    if (process.get() != ended) continue;
    process->ended = true;
    ::epoll_ctl(wait_, EPOLL_CTL_DEL, process->end, nullptr);
  }
  for (uint32_t slot = 0; slot < paths_.size(); ++slot) {
    if (paths_[slot] != nullptr && paths_[slot]->peer() == ended) again_.push_back(slot);
  }
}

}  // namespace rocecoll
