// SPDX-License-Identifier: Apache-2.0
// Memory that is allocated here for communication, so that its release is seen: a device's
// registration of its pages may be kept from one operation to the next. Other memory may be
// unmapped, and its addresses reused, without notice.
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
    std::atomic<bool> freed{false};  // by its user: only holders still have it
  };
  // Keeps the pages of a block mapped, even after the user has freed the block.
  using Holder = std::shared_ptr<const Block>;

  struct Freer {
    void operator()(std::byte* data) const { Free(data); }
  };
  using Owner = std::unique_ptr<std::byte, Freer>;

  // Allocates whole pages, huge ones where available. Null if there is not enough memory.
  static Owner Allocate(size_t bytes);
  // Frees memory that an Owner has released, here or before this process was forked. Does nothing
  // for null.
  static void Free(void* data);
  // The block that contains all of `memory`; null if there is none.
  static Holder Find(std::span<const std::byte> memory);
  // How many blocks were ever freed. Holders check theirs when this has grown.
  static uint64_t Frees();

 private:
  friend class PerProcess<LastingMemory>;
  LastingMemory() = default;
  static LastingMemory& instance() { return PerProcess<LastingMemory>::instance(); }

  std::mutex mutex_;
  std::map<const std::byte*, std::shared_ptr<Block>> blocks_;  // by their first byte
  std::atomic<uint64_t> frees_{0};
};

}  // namespace rocecoll
