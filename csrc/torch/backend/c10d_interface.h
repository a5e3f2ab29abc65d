// SPDX-License-Identifier: Apache-2.0
// Where c10d's interface differs between the releases of torch that setup.py names: base classes
// with one interface for all of them.
#pragma once

#include <torch/headeronly/version.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

static_assert(TORCH_VERSION_MAJOR == 2, "the conditions below count the minor releases of torch 2");

namespace rocecoll::torch_adapter {

#if TORCH_VERSION_MINOR < 14

// Numbers begin at 0 on every rank, but torch asks its groups to agree on them, and its own class
// refuses for backends that it does not know.
class ProcessGroupInterface : public c10d::ProcessGroup {
 public:
  using c10d::ProcessGroup::ProcessGroup;
  void setSequenceNumberForGroup() override { getDefaultBackend()->setSequenceNumberForGroup(); }
};

template <typename Derived>
using OptionsInterface = c10d::Backend::Options;

#else

using ProcessGroupInterface = c10d::ProcessGroup;

// torch copies a group's options for its parts, and shares them where the copy has lost its type.
template <typename Derived>
struct OptionsInterface : c10d::Backend::Options {
  using c10d::Backend::Options::Options;
  c10::intrusive_ptr<c10d::Backend::Options> clone() const override {
    return c10::make_intrusive<Derived>(static_cast<const Derived&>(*this));
  }
};

#endif

}  // namespace rocecoll::torch_adapter
