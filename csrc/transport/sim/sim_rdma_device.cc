// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/sim_rdma_device.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "transport/sim/sim_rdma_queue_pair.h"

namespace rocecoll {

SimRdmaDevice::SimRdmaDevice(SimRdmaFabric& fabric, uint32_t endpoint, const RdmaLimits& limits)
    : fabric_(fabric),
      endpoint_(endpoint),
      limits_(limits),
      description_("simulated RDMA device " + std::to_string(endpoint)) {}

SimRdmaDevice::~SimRdmaDevice() {
  ROCECOLL_CHECK(queue_pairs_.empty());
  slot().device = nullptr;
}

Result<MemoryRegion> SimRdmaDevice::register_memory(std::span<std::byte> memory,
                                                    RemoteAccess access) {
  if (memory.empty()) return Status(StatusCode::kInvalidArgument, "no memory to register");
  SimRdmaRegistrations& registrations = slot().registrations;
  const bool too_many = memory.size() > limits_.max_region_bytes ||
                        memory.size() + registrations.bytes > limits_.max_registered_bytes;
  if (dead() || slot().refusals.registrations || too_many) {
    return Status(StatusCode::kNetwork,
                  description_ + " cannot register " + std::to_string(memory.size()) +
                      " bytes: the locked-memory limit is reached; raise ulimit -l");
  }
  // Keys are never reused. Remote keys differ from local ones, so that tests notice a mix-up.
  const uint32_t local_key = next_key_;
  const uint32_t remote_key = next_key_ + 1;
  next_key_ += 2;
  regions_[local_key] = {memory, remote_key, access};
  ++registrations.calls;
  registrations.bytes_asked += memory.size();
  registrations.bytes += memory.size();
  registrations.largest_bytes = std::max<uint64_t>(registrations.largest_bytes, memory.size());
  registrations.most_bytes = std::max(registrations.most_bytes, registrations.bytes);
  return MemoryRegion{local_key, local_key, remote_key};
}

void SimRdmaDevice::deregister(const MemoryRegion& region) {
  const auto found = regions_.find(region.local_key);
  ROCECOLL_CHECK(found != regions_.end());
  slot().registrations.bytes -= found->second.memory.size();
  regions_.erase(found);
}

Result<std::unique_ptr<RdmaQueuePair>> SimRdmaDevice::create_queue_pair() {
  const SimRdmaRefusals& refusals = slot().refusals;
  if (dead() || refusals.queue_pairs || queue_pairs_.size() >= refusals.queue_pairs_beyond) {
    return Status(StatusCode::kNetwork, description_ + " has no queue pair left");
  }
  const uint32_t number = fabric_.next_number_++;
  auto queue_pair = std::make_unique<SimRdmaQueuePair>(fabric_, *this, number);
  queue_pairs_[number] = queue_pair.get();
  return std::unique_ptr<RdmaQueuePair>(std::move(queue_pair));
}

size_t SimRdmaDevice::post_receives(std::span<const ReceiveRequest> batch) {
  ROCECOLL_CHECK(limits_.shared_receives);
  if (dead()) return 0;
  const size_t room = limits_.max_receive_requests - receives_.size();
  const size_t count = std::min(batch.size(), room);
  receives_.insert(receives_.end(), batch.begin(), batch.begin() + static_cast<ptrdiff_t>(count));
  while (!receives_.empty() && !waiters_.empty()) {
    const SimRdmaFabric::End next = waiters_.front();
    waiters_.pop_front();
    if (SimRdmaQueuePair* queue_pair = fabric_.find(next)) queue_pair->on_receiver_ready();
  }
  return count;
}

size_t SimRdmaDevice::poll(std::span<WorkCompletion> completions) {
  if (dead()) return 0;
  size_t count = 0;
  for (; count < completions.size() && !completions_.empty(); ++count) {
    const Entry& entry = completions_.front();
    completions[count] = entry.completion;
    if (entry.completion.kind == WorkCompletion::Kind::kSend) {
      SimRdmaQueuePair* queue_pair = find(entry.completion.queue_pair);
      ROCECOLL_CHECK(queue_pair != nullptr);
      queue_pair->on_polled(entry.sequence);
    }
    completions_.pop_front();
  }
  return count;
}

Status SimRdmaDevice::health() {
  if (dead()) return Status(StatusCode::kNetwork, description_ + " is gone (device fatal event)");
  if (!slot().port_up) {
    return Status(StatusCode::kNetwork, description_ + ": its port is down (port error event)");
  }
  return Status();
}

SimRdmaQueuePair* SimRdmaDevice::find(uint32_t number) const {
  const auto at = queue_pairs_.find(number);
  return at == queue_pairs_.end() ? nullptr : at->second;
}

std::vector<uint32_t> SimRdmaDevice::queue_pairs() const {
  std::vector<uint32_t> numbers;
  for (const auto& [number, queue_pair] : queue_pairs_) numbers.push_back(number);
  return numbers;
}

size_t SimRdmaDevice::receive_requests() const {
  size_t count = receives_.size();
  for (const auto& [number, queue_pair] : queue_pairs_) count += queue_pair->own_receives_.size();
  return count;
}

void SimRdmaDevice::wake_queue_pairs() {
  for (const auto& [number, queue_pair] : queue_pairs_) queue_pair->on_path_changed();
}

void SimRdmaDevice::connect_in_turn(uint32_t number) {
  connecting_.push_back(number);
  if (connecting_.size() == 1) start_connecting();
}

void SimRdmaDevice::start_connecting() {
  const Duration time = fabric_.options().connect_time;
  if (time == Duration{0}) return on_connect_time();
  fabric_.schedule(fabric_.queue_.now() + time, endpoint_,
                   [](SimRdmaDevice& self) { self.on_connect_time(); });
}

void SimRdmaDevice::on_connect_time() {
  SimRdmaQueuePair* queue_pair = find(connecting_.front());
  connecting_.pop_front();
  if (queue_pair != nullptr) queue_pair->on_connect_time();
  if (!connecting_.empty()) start_connecting();
}

void SimRdmaDevice::forget(uint32_t number) {
  queue_pairs_.erase(number);
  if (!connecting_.empty()) {
    connecting_.erase(std::remove(connecting_.begin() + 1, connecting_.end(), number),
                      connecting_.end());
  }
  // Received messages stay, because their buffers belong to the device and not to the queue pair.
  std::erase_if(completions_, [number](const Entry& entry) {
    const WorkCompletion::Kind kind = entry.completion.kind;
    return entry.completion.queue_pair == number &&
           (kind == WorkCompletion::Kind::kSend || kind == WorkCompletion::Kind::kConnect);
  });
  for (Entry& entry : completions_) {
    uint32_t& queue_pair = entry.completion.queue_pair;
    if (queue_pair == number) queue_pair = kNoQueuePair;
  }
}

bool SimRdmaDevice::covers(uint32_t local_key, std::span<const std::byte> memory) const {
  if (memory.empty()) return true;
  const auto at = regions_.find(local_key);
  if (at == regions_.end()) return false;
  const std::span<std::byte> region = at->second.memory;
  return memory.data() >= region.data() &&
         memory.data() + memory.size() <= region.data() + region.size();
}

std::span<std::byte> SimRdmaDevice::writable(uint32_t remote_key, uint64_t address,
                                             size_t size) const {
  const auto at = regions_.find(remote_key - 1);
  if (at == regions_.end() || at->second.access != RemoteAccess::kWrite) return {};
  const std::span<std::byte> region = at->second.memory;
  const auto base = reinterpret_cast<uint64_t>(region.data());
  if (address < base || address - base > region.size()) return {};
  const size_t offset = address - base;
  if (size > region.size() - offset) return {};
  return region.subspan(offset, size);
}

void SimRdmaDevice::complete(const WorkCompletion& completion, uint64_t sequence) {
  completions_.push_back({completion, sequence});
}

}  // namespace rocecoll
