// SPDX-License-Identifier: Apache-2.0
#include "torch/backend/process_group.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

namespace rocecoll::torch_adapter {

ProcessGroup::ProcessGroup(c10::intrusive_ptr<c10d::Store> store,
                           const c10::intrusive_ptr<Backend>& backend,
                           const std::vector<c10::DeviceType>& devices,
                           std::optional<c10::Device> bound)
    : ProcessGroupInterface(std::move(store), backend->getRank(), backend->getSize()) {
  setBoundDeviceId(bound);  // setBackend() hands it on
  setDefaultBackend(BackendType::CUSTOM);
  for (c10::DeviceType device : devices) setBackend(device, BackendType::CUSTOM, backend);
  init();
}

c10::intrusive_ptr<c10d::ProcessGroup> ProcessGroup::splitGroup(
    const std::vector<int>& ranks, const std::optional<std::chrono::milliseconds>& timeout,
    const std::optional<c10::intrusive_ptr<c10d::Backend::Options>>& options,
    const std::optional<std::string>& name, const std::optional<std::string>& description,
    const std::optional<std::vector<c10::Device>>& devices) {
  const auto parent = getDefaultBackend();
  auto& whole = InterfaceOf(*parent);
  const auto given = options ? *options : whole.getBackendOptions();
  const auto* chosen = dynamic_cast<const Options*>(given.get());
  TORCH_CHECK_TYPE(chosen != nullptr, "split_group: pg_options must be rocecoll.Options");
  auto own = c10::make_intrusive<Options>(*chosen);
  own->group_name =
      name ? *name : getGroupName() + ":split:" + std::to_string(incrementSplitCount());
  own->group_desc = description.value_or(getGroupDesc() + ":split");
  if (timeout) own->timeout = *timeout;
  std::vector<int> members = ranks;
  std::sort(members.begin(), members.end());
  auto store = c10::make_intrusive<c10d::PrefixStore>(own->group_name + "/", store_);
  const auto made = whole.split(store, members, own);
  if (made == nullptr) return nullptr;
  const auto part = c10::intrusive_ptr<Backend>::reclaim_copy(dynamic_cast<Backend*>(made.get()));
  std::vector<c10::DeviceType> types;
  for (const c10::Device& device : devices.value_or(getDeviceTypes())) {
    types.push_back(device.type());
  }
  auto group = c10::make_intrusive<ProcessGroup>(std::move(store), part, types, std::nullopt);
  group->setGroupName(own->group_name);
  group->setGroupDesc(own->group_desc);
  return group;
}

uint64_t ProcessGroup::getSequenceNumberForGroup() {
  return getDefaultBackend()->getSequenceNumberForGroup();
}

}  // namespace rocecoll::torch_adapter
