// SPDX-License-Identifier: Apache-2.0
#include "python/group_object.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <utility>

#include "base/named_status.h"
#include "python/errors.h"

namespace py = pybind11;

namespace rocecoll::python {
namespace {

// The row of that name, or raises; a call looks here, so only a failure makes a list of the names.
template <typename Rows, typename Equal = std::equal_to<>>
const auto& RowNamed(const Rows& rows, std::string_view name, const char* what, Equal equal = {}) {
  for (const auto& row : rows) {
    if (equal(row.name, name)) return row;
  }
  std::string known;
  for (const auto& row : rows) known += (known.empty() ? "" : ", ") + std::string(row.name);
  RaiseInvalid("there is no " + std::string(what) + " \"" + std::string(name) + "\"; there are " +
               known);
}

ReduceOp ParseReduceOp(std::string_view name) {
  const auto in_any_case = [](std::string_view upper, std::string_view given) {
    return std::ranges::equal(upper, given, [](unsigned char a, unsigned char b) {
      return a == b || a == std::toupper(b);
    });
  };
  return RowNamed(kReduceOpTraits, name, "reduce op", in_any_case).op;
}

}  // namespace

GroupObject::GroupObject(const RuntimeObject& runtime, GroupSpec spec)
    : runtime_(runtime.runtime()),
      rank_(spec.rank),
      size_(static_cast<uint32_t>(spec.addresses.size())) {
  Result<GroupId> added = GroupId{0};
  Progress& progress = ProgressOf(*runtime_);
  {
    const py::gil_scoped_release release;
    added = progress.add_group(std::move(spec));
  }
  RaiseUnlessOk(added.status());
  id_ = added.value();
}

GroupObject::~GroupObject() {
  close();
  const py::gil_scoped_release release;
  runtime_.reset();
}

void GroupObject::close() {
  if (!id_.has_value()) return;
  const GroupId id = *std::exchange(id_, std::nullopt);
  if (runtime_->forked()) return;
  const py::gil_scoped_release release;
  runtime_->progress().remove_group(id);
}

void GroupObject::abort(const std::string& reason) {
  if (!id_.has_value()) return;
  const GroupId id = *id_;  // as another thread may close the group meanwhile
  Progress& progress = ProgressOf(*runtime_);
  const py::gil_scoped_release release;
  progress.abort(id, Status(StatusCode::kAborted, reason));
}

void GroupObject::set_timeout(double timeout_s) {
  const Duration timeout = DurationFromSeconds(timeout_s, "timeout_s");
  if (timeout <= Duration{0}) RaiseInvalid("timeout_s must be positive");
  if (!id_.has_value()) return;
  const GroupId id = *id_;
  Progress& progress = ProgressOf(*runtime_);
  const py::gil_scoped_release release;
  progress.set_timeout(id, timeout);
}

Status GroupObject::status() const {
  if (!id_.has_value()) return NamedStatus(StatusCode::kAborted, "the group is closed");
  const GroupId id = *id_;
  Progress& progress = ProgressOf(*runtime_);
  const py::gil_scoped_release release;
  return progress.group_status(id);
}

GroupObject::Call::Call(const GroupObject& group, Collective collective, std::string_view type,
                        const CallOptions& options)
    : group_(group), asynchronous_(options.asynchronous), views_(std::make_shared<BufferViews>()) {
  spec_.collective = collective;
  spec_.type = RowNamed(kDataTypeTraits, type, "data type").type;
  spec_.timeout = DurationFromSeconds(options.timeout_s, "timeout_s");
  spec_.algorithm = options.algorithm;
}

GroupObject::Call& GroupObject::Call::reduce_op(std::string_view name, double premul_factor) {
  spec_.reduce_op = ParseReduceOp(name);
  spec_.premul_factor = premul_factor;
  return *this;
}

GroupObject::Call& GroupObject::Call::root(int64_t rank) {
  if (rank < 0 || rank >= group_.size_) {
    RaiseInvalid("rank " + std::to_string(rank) + " is not in the group, which has " +
                 std::to_string(group_.size_) + " ranks");
  }
  spec_.root = static_cast<Rank>(rank);
  return *this;
}

GroupObject::Call& GroupObject::Call::tag(int64_t tag) {
  if (tag < 0 || tag >= int64_t{1} << 31) RaiseInvalid("tags go from 0 to 2^31 - 1");
  spec_.user_tag = static_cast<uint32_t>(tag);
  return *this;
}

GroupObject::Call& GroupObject::Call::uniform(bool uniform) {
  spec_.uniform = uniform;
  return *this;
}

OperationBuffer GroupObject::Call::bind(const py::object& buffer, const char* name, bool writable,
                                        uint32_t blocks, const Counts& counts) {
  const BufferViews::Memory memory = views_->add(buffer, name, spec_.type, writable);
  if (buffer.is_none()) return {};
  if (!counts.has_value()) return {memory.data, Partition::Even(memory.elements, blocks)};
  if (counts->size() != blocks) {
    RaiseInvalid(std::string(name) + ": " + std::to_string(counts->size()) + " counts for " +
                 std::to_string(blocks) + " ranks");
  }
  std::vector<ElementRange> ranges;
  uint64_t offset = 0;
  for (const uint64_t count : *counts) {
    if (count > memory.elements - offset) {
      RaiseInvalid(std::string(name) + " has " + std::to_string(memory.elements) +
                   " elements, its counts add up to more");
    }
    ranges.push_back({offset, count});
    offset += count;
  }
  if (offset != memory.elements) {
    RaiseInvalid(std::string(name) + " has " + std::to_string(memory.elements) +
                 " elements, its counts add up to " + std::to_string(offset));
  }
  return {memory.data, Partition::Explicit(std::move(ranges))};
}

GroupObject::Call& GroupObject::Call::input(const py::object& buffer, uint32_t blocks,
                                            const Counts& counts) {
  spec_.input = bind(buffer, "input", false, blocks, counts);
  return *this;
}

GroupObject::Call& GroupObject::Call::output(const py::object& buffer, uint32_t blocks,
                                             const Counts& counts) {
  spec_.output = bind(buffer, "output", true, blocks, counts);
  return *this;
}

py::object GroupObject::Call::run() {
  RaiseUnlessOk(group_.id_.has_value() ? Status()
                                       : NamedStatus(StatusCode::kAborted, "the group is closed"));
  // The engine and whoever waits share the operation; the last that lets go of the buffers here or
  // there drops them.
  auto operation = std::make_shared<Operation>(std::move(spec_), views_);
  const GroupId id = *group_.id_;
  Progress& progress = ProgressOf(*group_.runtime_);
  Status status;
  {
    const py::gil_scoped_release release;
    status = progress.submit(id, operation,
                             asynchronous_ ? Progress::Next::kGoesOn : Progress::Next::kWaits);
    if (status.ok() && !asynchronous_) {
      WaitUnlocked(progress, operation, Duration::max());
      status = operation->status();
    }
  }
  RaiseUnlessOk(status);
  if (asynchronous_) {
    return py::cast(std::make_unique<OperationObject>(group_.runtime_, std::move(operation)));
  }
  return py::none();
}

}  // namespace rocecoll::python
