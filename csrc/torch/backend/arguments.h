// SPDX-License-Identifier: Apache-2.0
// Argument checks in the words of torch's own backends, before anything is sent.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "engine/operations/operation.h"

namespace rocecoll::torch_adapter {

// Throws RuntimeError "ProcessGroupRocecoll::<function>: <what>", as gloo's users expect.
[[noreturn]] void Refuse(const char* function, const std::string& what);

void CheckRoot(const char* function, int64_t root, int size);
// Dense and on the CPU or an accelerator.
void CheckTensor(const char* function, const at::Tensor& tensor);
void CheckTensor(const char* function, const at::Tensor& tensor, at::ScalarType type);
// All of one layout. At least one.
void CheckLayouts(const char* function, const std::vector<at::Tensor>& tensors);
// At least one, all of one layout, type, size and device.
void CheckAlike(const char* function, const std::vector<at::Tensor>& tensors);
// Dense tensors of the type of `like`.
void CheckTypes(const char* function, const std::vector<at::Tensor>& tensors,
                const at::Tensor& like);
// Every tensor of the list has the sizes of `like`.
void CheckSizes(const char* function, const std::vector<at::Tensor>& tensors,
                const at::Tensor& like);
// `tensors` is one dense tensor; returns it. `which`: "input ", "output " or nothing.
const at::Tensor& Single(const char* function, const char* which,
                         const std::vector<at::Tensor>& tensors);
// `list` is one list of `size` dense tensors of the type of `like`; returns it. `which`: "input" or
// "output".
const std::vector<at::Tensor>& SingleList(const char* function, const char* which,
                                          const std::vector<std::vector<at::Tensor>>& list,
                                          int size, const at::Tensor& like);
// Rows of `tensor` given to each rank; an empty `splits` means even.
std::vector<int64_t> CheckSplits(const char* function, const char* name, const at::Tensor& tensor,
                                 const std::vector<int64_t>& splits, int size);

// Sets the operation, and for PREMUL_SUM its factor.
void SetReduction(const char* function, const c10d::ReduceOp& op, OperationSpec& spec);

}  // namespace rocecoll::torch_adapter
