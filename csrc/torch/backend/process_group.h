// SPDX-License-Identifier: Apache-2.0
// A process group whose devices are all served by one rocecoll backend. torch's own class knows no
// names but those of its own backends, and no sequence numbers for others.
//
// Not made known to Python as a class: there it is a plain ProcessGroup, which torch compares types
// with (batch_isend_irecv, destroy_process_group).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "torch/backend/backend.h"
#include "torch/interface/c10d_interface.h"

namespace rocecoll::torch_adapter {

class ProcessGroup : public ProcessGroupInterface {
 public:
  ProcessGroup(c10::intrusive_ptr<c10d::Store> store, const c10::intrusive_ptr<Backend>& backend,
               const std::vector<c10::DeviceType>& devices, std::optional<c10::Device> bound);

  const std::string getBackendName() const override { return "rocecoll"; }
  uint64_t getSequenceNumberForGroup() override;
  // As torch's, which would name the new group "custom" and split once for each device.
  c10::intrusive_ptr<c10d::ProcessGroup> splitGroup(
      const std::vector<int>& ranks, const std::optional<std::chrono::milliseconds>& timeout,
      const std::optional<c10::intrusive_ptr<c10d::Backend::Options>>& options,
      const std::optional<std::string>& name, const std::optional<std::string>& description,
      const std::optional<std::vector<c10::Device>>& devices) override;
};

}  // namespace rocecoll::torch_adapter
