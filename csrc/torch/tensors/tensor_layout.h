// SPDX-License-Identifier: Apache-2.0
// Tensors as the engine's buffers, without flattening: a list of tensors is one buffer whose blocks
// lie wherever the tensors do, counted from the lowest address. Only what the engine cannot address
// (strided, misaligned or lazily conjugated tensors) goes through a contiguous temporary. An
// accelerator's tensors have images on the host (device_staging.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/data_type.h"
#include "engine/operations/operation.h"
#include "torch/tensors/device_staging.h"

namespace rocecoll::torch_adapter {

enum class Access : uint8_t {
  kRead,       // the operation only reads the tensors
  kWrite,      // overwrites them entirely
  kReadWrite,  // in place
};

// What keeps an operation's memory alive, and what is due before its result may be seen.
struct Staging {
  std::vector<at::Tensor> tensors;                           // all on one device
  std::vector<std::pair<at::Tensor, at::Tensor>> copy_back;  // {the caller's, the temporary}
  std::unique_ptr<DeviceStaging> device;                     // null on the CPU

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

// The inputs, or copies of them where memory of `outputs` lies in them: the engine would overwrite
// what it still has to send.
std::vector<at::Tensor> Unaliased(const std::vector<at::Tensor>& inputs,
                                  const std::vector<at::Tensor>& outputs);

// Throws TypeError for element types that do not exist on the wire (quantized, sub-byte).
DataType ToDataType(at::ScalarType type);

}  // namespace rocecoll::torch_adapter
