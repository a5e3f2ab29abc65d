// SPDX-License-Identifier: Apache-2.0
// rocecoll._core.Group: collectives on buffers.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "python/buffer_view.h"
#include "python/runtime_object.h"

namespace rocecoll::python {

// What every call accepts besides its buffers. A call that is not asynchronous returns once it is
// complete, and no object to wait for.
struct CallOptions {
  double timeout_s = 0;
  std::string_view algorithm;
  bool asynchronous = true;
};

using Counts = std::optional<std::vector<uint64_t>>;

class GroupObject {
 public:
  GroupObject(const RuntimeObject& runtime, GroupSpec spec);
  ~GroupObject();
  GroupObject(const GroupObject&) = delete;
  GroupObject& operator=(const GroupObject&) = delete;

  uint32_t rank() const { return rank_; }
  uint32_t size() const { return size_; }
  // Ends the group in good order; calls afterwards are refused.
  void close();
  void abort(const std::string& reason);
  void set_timeout(double timeout_s);
  Status status() const;

  // Builds one operation: buffers, then run(). Raises what is wrong with the arguments.
  class Call {
   public:
    Call(const GroupObject& group, Collective collective, std::string_view type,
         const CallOptions& options);
    Call& reduce_op(std::string_view name, double premul_factor);
    Call& root(int64_t rank);
    Call& tag(int64_t tag);
    Call& uniform(bool uniform);
    // Cuts the buffer evenly into `blocks`, or as `counts` (end to end, all of the buffer) say.
    Call& input(const pybind11::object& buffer, uint32_t blocks, const Counts& counts = {});
    Call& output(const pybind11::object& buffer, uint32_t blocks, const Counts& counts = {});
    // Returns an Operation, or None if the call is not asynchronous; then it raises its failure.
    pybind11::object run();

   private:
    OperationBuffer bind(const pybind11::object& buffer, const char* name, bool writable,
                         uint32_t blocks, const Counts& counts);

    const GroupObject& group_;
    OperationSpec spec_;
    const bool asynchronous_;
    std::shared_ptr<BufferViews> views_;
  };

 private:
  std::shared_ptr<Runtime> runtime_;
  std::optional<GroupId> id_;  // none once closed
  uint32_t rank_ = 0;
  uint32_t size_ = 0;
};

void BindGroup(pybind11::module_& module);

}  // namespace rocecoll::python
