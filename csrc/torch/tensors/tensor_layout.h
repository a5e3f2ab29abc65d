// SPDX-License-Identifier: Apache-2.0
// Tensors as the engine's buffers, without flattening: a list of tensors is one buffer whose blocks
// lie wherever the tensors do, counted from the lowest address. Only what the engine cannot address
// (strided, misaligned or lazily conjugated tensors) goes through a contiguous temporary. An
// accelerator's tensors have places only (device_staging.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/data_type.h"
#include "engine/operations/operation.h"
#include "torch/tensors/device_staging.h"
#include "torch/tensors/memory_extents.h"
#include "torch/tensors/short_lists.h"

namespace rocecoll::torch_adapter {

enum class Access : uint8_t {
  kRead,       // the operation only reads the tensors
  kWrite,      // overwrites them entirely
  kReadWrite,  // in place
};

// What keeps an operation's memory alive, and what is due before its result may be seen.
struct Staging {
  std::vector<c10::Storage> memory;  // all on one device; the caller's tensors may get another
  // Of short lists (short_lists.h), before what follows.
  std::vector<ShortList> spread;
  std::vector<std::pair<at::Tensor, at::Tensor>> copy_back;  // {the caller's, the temporary}
  std::unique_ptr<DeviceStaging> device;                     // null on the CPU

  // Has `value` stored in the caller's `result` once the operations are complete, after what was
  // asked for before. Throws where elements of the result share memory.
  void store_later(const at::Tensor& result, const at::Tensor& value);
  bool has_results_to_copy() const { return !spread.empty() || !copy_back.empty(); }
  void copy_results();
};

// Appends to `staging` and returns tensors of the same sizes that the engine can address.
at::Tensor Addressable(const at::Tensor& tensor, Access access, Staging& staging);

// One tensor cut evenly into `blocks`.
OperationBuffer EvenBuffer(const at::Tensor& tensor, uint32_t blocks, Access access,
                           Staging& staging);
// One block a tensor. All have the same element type.
OperationBuffer ListBuffer(const std::vector<at::Tensor>& tensors, Access access, Staging& staging);
// One tensor cut along its first dimension into blocks of `splits` rows.
OperationBuffer SplitBuffer(const at::Tensor& tensor, const std::vector<int64_t>& splits,
                            Access access, Staging& staging);

// The tensors of all lists in one.
std::vector<at::Tensor> Flatten(const std::vector<std::vector<at::Tensor>>& lists);

// What the operations of a call may write, one after the other or at once, for its results: those
// of the first list, or temporaries for them where some of the results share memory. Every further
// list is as long and obtains the same. Results are stored in their order, so that of those which
// share memory the last one counts, as with gloo.
std::vector<at::Tensor> Targets(const std::vector<std::vector<at::Tensor>>& copies, Access access,
                                Staging& staging);

// The input, or a copy of it where it lies in what the call writes: the engine would overwrite what
// it still has to send.
at::Tensor Unaliased(const at::Tensor& input, const MemoryExtents& written);
std::vector<at::Tensor> Unaliased(std::vector<at::Tensor> inputs, const MemoryExtents& written);

// Throws TypeError for element types that do not exist on the wire (quantized, sub-byte).
DataType ToDataType(at::ScalarType type);

}  // namespace rocecoll::torch_adapter
