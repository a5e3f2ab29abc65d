// SPDX-License-Identifier: Apache-2.0
// How a group gets other ranks. Python makes the new group and has its members agree on it
// (rocecoll/elastic.py). c10d's own interface, in which the object stays, is that of torch 2.14 and
// later.
#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <utility>

#include "torch/backend/backend.h"
#include "torch/interface/intrusive_holder.h"

namespace rocecoll::torch_adapter {

c10::intrusive_ptr<Backend> Backend::remade(GroupSpec group) const {
  auto own = c10::make_intrusive<Options>(*options_);
  own->timeout = std::chrono::duration_cast<std::chrono::milliseconds>(group.timeout);
  return c10::make_intrusive<Backend>(runtime_, std::move(group), current()->facts.algorithms,
                                      std::move(own));
}

#ifdef C10D_BACKEND_HAS_RECONFIGURE

namespace {

pybind11::module_ Elastic() { return pybind11::module_::import("rocecoll.elastic"); }

}  // namespace

void Backend::await_members(int rank, int size) {
  const std::lock_guard lock(membership_mutex_);
  awaits_members_ = true;
  rank_ = rank;
  size_ = size;
}

void Backend::adopt(Backend& made) {
  ROCECOLL_CHECK(made.runtime_ == runtime_);
  ProgressOf(*runtime_).set_timeout(made.current()->group, Saturated(timeout_.load()));
  abort_hooks_->on_end(current()->group);
  {
    const std::scoped_lock lock(membership_mutex_, made.membership_mutex_);
    std::swap(membership_, made.membership_);
    awaits_members_ = false;
    rank_ = membership_->facts.rank;
    size_ = membership_->facts.size;
  }
  made.shutdown();  // with the old group
}

c10d::ReconfigureHandle Backend::get_reconfigure_handle() const {
  ProgressOf(*runtime_);  // throws in a forked process
  const pybind11::gil_scoped_acquire python;
  return Elastic().attr("to_handle_of")(options_).cast<std::string>();
}

Backend::WorkPtr Backend::reconfigure(const c10d::ReconfigureOptions& options) {
  ProgressOf(*runtime_);
  const pybind11::gil_scoped_acquire python;
  const auto self = c10::intrusive_ptr<Backend>::reclaim_copy(this);
  return Elastic()
      .attr("reconfigure_in_place")(self, options.uuid, options.handles, options.timeout)
      .cast<WorkPtr>();
}

#endif

}  // namespace rocecoll::torch_adapter
