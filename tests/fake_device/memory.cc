// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace fake_device {
namespace {

// Freed memory stays readable, and is not given out again, until this much of it has piled up.
constexpr size_t kQuarantineBytes = size_t{256} << 20;
constexpr size_t kAlignment = 64;

struct Block {
  std::byte* data = nullptr;
  size_t bytes = 0;
  bool pinned = false;
  bool foreign = false;
  bool dead = false;
  std::set<StreamKey> streams;
};

// Never destroyed: memory is freed until the process ends.
struct Memory {
  std::mutex mutex;
  std::map<uintptr_t, Block*> blocks;  // by first address
  std::deque<Block*> quarantine;
  size_t quarantined = 0;
  int64_t pinned = 0;
  int64_t most_pinned = 0;
  std::vector<std::string> violations;
};

Memory& GlobalMemory() {
  static auto* memory = new Memory;
  return *memory;
}

// With the lock held.
Block* Find(Memory& memory, const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  auto next = memory.blocks.upper_bound(address);
  if (next == memory.blocks.begin()) return nullptr;
  Block* block = std::prev(next)->second;
  return address < std::prev(next)->first + std::max<size_t>(block->bytes, 1) ? block : nullptr;
}

void Poison(Block* block) {
  Memory& memory = GlobalMemory();
  std::lock_guard lock(memory.mutex);
  block->dead = true;
  if (block->pinned) memory.pinned -= static_cast<int64_t>(block->bytes);
  std::memset(block->data, kPoison, block->bytes);
  memory.quarantine.push_back(block);
  memory.quarantined += block->bytes;
  while (memory.quarantined > kQuarantineBytes) {
    Block* oldest = memory.quarantine.front();
    memory.quarantine.pop_front();
    memory.quarantined -= oldest->bytes;
    memory.blocks.erase(reinterpret_cast<uintptr_t>(oldest->data));
    std::free(oldest->data);
    delete oldest;
  }
}

void Free(void* context) {
  auto* block = static_cast<Block*>(context);
  std::set<StreamKey> streams;
  {
    std::lock_guard lock(GlobalMemory().mutex);
    streams = std::move(block->streams);
  }
  if (streams.empty()) {
    Poison(block);
    return;
  }
  auto left = std::make_shared<std::atomic<size_t>>(streams.size());
  for (const StreamKey& key : streams) {
    QueueOf(key).enqueue([left, block] {
      if (left->fetch_sub(1) == 1) Poison(block);
    });
  }
}

Block* Allocate(size_t bytes) {
  auto* block = new Block;
  const size_t rounded = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  block->data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  TORCH_CHECK(block->data, "fake device: out of memory");
  block->bytes = bytes;
  std::memset(block->data, kPoison, bytes);  // nobody may count on zeros
  return block;
}

c10::DataPtr Register(Block* block, c10::Device device) {
  Memory& memory = GlobalMemory();
  std::lock_guard lock(memory.mutex);
  memory.blocks[reinterpret_cast<uintptr_t>(block->data)] = block;
  return {block->data, block, &Free, device};
}

}  // namespace

c10::DataPtr AllocateDevice(size_t bytes, StreamKey owner) {
  const c10::Device device(c10::DeviceType::PrivateUse1, static_cast<int8_t>(owner.device));
  if (bytes == 0) return {nullptr, device};
  Block* block = Allocate(bytes);
  block->streams.insert(owner);
  return Register(block, device);
}

c10::DataPtr AllocatePinned(size_t bytes) {
  if (bytes == 0) return {nullptr, c10::DeviceType::CPU};
  Block* block = Allocate(bytes);
  block->pinned = true;
  {
    Memory& memory = GlobalMemory();
    const std::lock_guard lock(memory.mutex);
    memory.pinned += static_cast<int64_t>(bytes);
    memory.most_pinned = std::max(memory.most_pinned, memory.pinned);
  }
  return Register(block, c10::DeviceType::CPU);
}

c10::DataPtr AllocateForeign(size_t bytes, int device) {
  const c10::Device there(c10::DeviceType::PrivateUse1, static_cast<int8_t>(device));
  if (bytes == 0) return {nullptr, there};
  Block* block = Allocate(bytes);
  block->foreign = true;
  return Register(block, there);
}

bool RecordUse(const void* data, StreamKey key) {
  Memory& memory = GlobalMemory();
  std::lock_guard lock(memory.mutex);
  Block* block = Find(memory, data);
  if (!block || block->dead || block->foreign) return false;
  block->streams.insert(key);
  return true;
}

bool IsPinned(const void* data) {
  Memory& memory = GlobalMemory();
  std::lock_guard lock(memory.mutex);
  const Block* block = Find(memory, data);
  return block && block->pinned;
}

void CheckAlive(const void* data, const std::string& who) {
  if (!data) return;
  Memory& memory = GlobalMemory();
  std::lock_guard lock(memory.mutex);
  const Block* block = Find(memory, data);
  if (block && block->dead) {
    memory.violations.push_back(who + (block->pinned ? ": freed pinned" : ": freed device") +
                                " memory of " + std::to_string(block->bytes) + " bytes");
  }
}

int64_t TakeMostPinned() {
  Memory& memory = GlobalMemory();
  const std::lock_guard lock(memory.mutex);
  return std::exchange(memory.most_pinned, memory.pinned);
}

std::vector<std::string> TakeViolations() {
  Memory& memory = GlobalMemory();
  std::lock_guard lock(memory.mutex);
  return std::exchange(memory.violations, {});
}

}  // namespace fake_device
