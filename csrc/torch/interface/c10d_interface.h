// SPDX-License-Identifier: Apache-2.0
// Where c10d's interface differs between the releases of torch that setup.py names: base classes,
// names and calls that are the same with all of them.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "base/check.h"
#include "torch/interface/torch_version.h"

namespace rocecoll::torch_adapter {

#if TORCH_VERSION_MINOR < 13
using PreMulSumSupplement = c10d::NCCLPreMulSumSupplement;
#else
using c10d::PreMulSumSupplement;
#endif

#if TORCH_VERSION_MINOR < 12

inline constexpr auto kReduceScatterCoalesced = c10d::OpType::COALESCED;  // as torch's own backends

// Profilers cannot be told whether a call is asynchronous.
#define RECORD_PARAM_COMMS_DATA_WITH_ASYNC_OP(sequence, group, inputs, outputs, rank, name,        \
                                              input_elements, output_elements, type, input_splits, \
                                              output_splits, first, stride, ranks, asynchronous)   \
  RECORD_PARAM_COMMS_DATA(sequence, group, inputs, outputs, rank, name, input_elements,            \
                          output_elements, type, input_splits, output_splits, first, stride,       \
                          ranks)

#else

inline constexpr auto kReduceScatterCoalesced = c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED;

#endif

#if TORCH_VERSION_MINOR < 14

// Numbers begin at 0 on every rank, but torch asks its groups to agree on them, and its own class
// refuses for backends that it does not know.
class ProcessGroupInterface : public c10d::ProcessGroup {
 public:
  using c10d::ProcessGroup::ProcessGroup;
  void setSequenceNumberForGroup() override { getDefaultBackend()->setSequenceNumberForGroup(); }
#if TORCH_VERSION_MINOR < 13
#if TORCH_VERSION_MINOR < 9  // torch.distributed makes each part of a group as a group of its own
  uint64_t incrementSplitCount() { return splits_++; }
#else
  // A part has all devices of its parent.
  c10::intrusive_ptr<c10d::ProcessGroup> splitGroup(
      const std::vector<int>& ranks, const std::optional<std::chrono::milliseconds>& timeout,
      const std::optional<c10::intrusive_ptr<c10d::Backend::Options>>& options,
      const std::optional<std::string>& name,
      const std::optional<std::string>& description) override {
    return splitGroup(ranks, timeout, options, name, description, std::nullopt);
  }
#endif
  virtual c10::intrusive_ptr<c10d::ProcessGroup> splitGroup(
      const std::vector<int>& ranks, const std::optional<std::chrono::milliseconds>& timeout,
      const std::optional<c10::intrusive_ptr<c10d::Backend::Options>>& options,
      const std::optional<std::string>& name, const std::optional<std::string>& description,
      const std::optional<std::vector<c10::Device>>& devices) = 0;
#endif
#if TORCH_VERSION_MINOR < 9

 private:
  uint64_t splits_ = 0;
#endif
};

#else

using ProcessGroupInterface = c10d::ProcessGroup;

#endif

#if TORCH_VERSION_MINOR < 11

// Options have no description of the group; ours have one all the same.
struct DescribedOptions : c10d::Backend::Options {
  using c10d::Backend::Options::Options;
#if TORCH_VERSION_MINOR < 9  // nor a name and members
  std::string group_name;
  std::vector<uint64_t> global_ranks_in_group;
#endif
  std::string group_desc;
};

template <typename Derived>
using OptionsInterface = DescribedOptions;

#elif TORCH_VERSION_MINOR < 14

template <typename Derived>
using OptionsInterface = c10d::Backend::Options;

#else

// torch copies a group's options for its parts, and shares them where the copy has lost its type.
template <typename Derived>
struct OptionsInterface : c10d::Backend::Options {
  using c10d::Backend::Options::Options;
  c10::intrusive_ptr<c10d::Backend::Options> clone() const override {
    return c10::make_intrusive<Derived>(static_cast<const Derived&>(*this));
  }
};

#endif

// Of a group that is to be made. Before 2.9 only our own options have one.
inline std::string NameOf(const c10d::Backend::Options& options) {
#if TORCH_VERSION_MINOR < 9
  const auto* described = dynamic_cast<const DescribedOptions*>(&options);
  return described ? described->group_name : "";
#else
  return options.group_name;
#endif
}

// Before 2.11 only our own options have one.
inline std::string DescriptionOf(const c10d::Backend::Options& options) {
#if TORCH_VERSION_MINOR < 11
  const auto* described = dynamic_cast<const DescribedOptions*>(&options);
  return described ? described->group_desc : "";
#else
  return options.group_desc;
#endif
}

#if TORCH_VERSION_MINOR < 10

// Calls that torch's own class does not have: only Python makes them.
class BackendInterface : public c10d::Backend {
 public:
  using c10d::Backend::Backend;
  virtual bool supportsShrinking() const = 0;
  virtual c10::intrusive_ptr<c10d::Backend> shrink(
      const std::vector<int64_t>& ranks_to_exclude, int shrink_flags,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) = 0;
#if TORCH_VERSION_MINOR < 9
  virtual c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) = 0;
  virtual c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() = 0;
  virtual void setTimeout(std::chrono::milliseconds timeout) = 0;
#endif
};

#else

using BackendInterface = c10d::Backend;

#endif

#if TORCH_VERSION_MINOR < 9

inline BackendInterface& InterfaceOf(c10d::Backend& backend) {
  auto* const interface = dynamic_cast<BackendInterface*>(&backend);
  ROCECOLL_CHECK(interface != nullptr);  // nobody splits other groups that way
  return *interface;
}

#else

inline c10d::Backend& InterfaceOf(c10d::Backend& backend) { return backend; }

#endif

// Whether the caller does not wait at once. Before 2.8 few calls tell.
template <typename CallOptions>
bool IsAsynchronous(const CallOptions& options) {
  if constexpr (requires { options.asyncOp; }) {
    return options.asyncOp;
  } else {
    return true;
  }
}

// What a hook is told of an operation that is complete. Before 2.10 torch takes times of day.
inline std::shared_ptr<c10d::WorkInfo> MakeWorkInfo(c10d::OpType type, uint64_t sequence,
                                                    std::chrono::steady_clock::time_point started,
                                                    std::chrono::nanoseconds duration) {
#if TORCH_VERSION_MINOR < 10
  using Clock = std::chrono::system_clock;
  const auto ago = std::chrono::steady_clock::now() - started;
  const auto began = Clock::now() - std::chrono::duration_cast<Clock::duration>(ago);
#else
  const auto began = started;
#endif
  return std::make_shared<c10d::WorkInfo>(type, sequence, began, began + duration, duration);
}

}  // namespace rocecoll::torch_adapter
