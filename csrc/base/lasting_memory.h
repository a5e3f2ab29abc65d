// SPDX-License-Identifier: Apache-2.0
// Memory that is allocated here for whoever communicates, so that its end is seen: what a device
// was told of its pages may be kept from one operation to the next. Of other memory nobody tells
// when it is unmapped, and its addresses are something else's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "base/per_process.h"

namespace rocecoll {

class LastingMemory {
 public:
  struct Block {
    explicit Block(std::span<std::byte> memory) : bytes(memory) {}
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    const std::span<std::byte> bytes;
    std::atomic<bool> freed{false};  // by its user: only who holds it still has it
  };
  // Its pages stay what they are meanwhile, also when the user has freed the block.
  using Holder = std::shared_ptr<const Block>;

  struct Freer {
    void operator()(std::byte* data) const { Free(data); }
  };
  using Owner = std::unique_ptr<std::byte, Freer>;

  // Whole pages, huge ones where the kernel has some. Null if there is no memory.
  static Owner Allocate(size_t bytes);
  // Of an owner that has released it, here or before this process was forked. Null: does nothing.
  static void Free(void* data);
  // The block that all of this lies in; null if it is in none.
  static Holder Find(std::span<const std::byte> memory);
  // Of blocks, ever: who holds some looks at them again when it has grown.
  static uint64_t Frees();

 private:
  friend class PerProcess<LastingMemory>;
  LastingMemory() = default;
  static LastingMemory& instance() { return PerProcess<LastingMemory>::instance(); }

  std::mutex mutex_;
  std::map<const std::byte*, std::shared_ptr<Block>> blocks_;  // by where they begin
  std::atomic<uint64_t> frees_{0};
};

}  // namespace rocecoll
