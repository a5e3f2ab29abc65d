// SPDX-License-Identifier: Apache-2.0
// Memory of the fake accelerator, in ordinary host memory, and its pinned host memory. Both are
// poisoned when a caching allocator might give them to somebody else: once the streams that are
// known to use them have reached the moment of the free. Whoever touches them later is caught.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "queue.h"

namespace fake_device {

constexpr unsigned char kPoison = 0xdb;

// For device memory: `owner` is the stream whose order protects it without being recorded.
c10::DataPtr AllocateDevice(size_t bytes, StreamKey owner);
c10::DataPtr AllocatePinned(size_t bytes);
// Device memory that another library gave us, as by DLPack: no use is recorded, and the free gives
// it out at once.
c10::DataPtr AllocateForeign(size_t bytes, int device);
// Keeps the memory at `data` until the work now in `key` is done. False: not from here.
bool RecordUse(const void* data, StreamKey key);
bool IsPinned(const void* data);
// The most bytes that were pinned at a time since the last call.
int64_t TakeMostPinned();

// Called by whatever runs in a stream, before it touches memory: notes uses after the free.
void CheckAlive(const void* data, const std::string& who);
std::vector<std::string> TakeViolations();

}  // namespace fake_device
