// SPDX-License-Identifier: Apache-2.0
// c10d's own way to give a group other ranks while its object stays: torch 2.14 and later. Python
// makes and agrees on the new group (rocecoll/elastic.py), as it does for older releases.
#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <utility>

#include "torch/backend/backend.h"
#include "torch/interface/intrusive_holder.h"

#ifdef C10D_BACKEND_HAS_RECONFIGURE

namespace rocecoll::torch_adapter {
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
  const pybind11::gil_scoped_acquire python;
  return Elastic().attr("to_handle_of")(options_).cast<std::string>();
}

Backend::WorkPtr Backend::reconfigure(const c10d::ReconfigureOptions& options) {
  const pybind11::gil_scoped_acquire python;
  const auto self = c10::intrusive_ptr<Backend>::reclaim_copy(this);
  return Elastic()
      .attr("reconfigure_in_place")(self, options.uuid, options.handles, options.timeout)
      .cast<WorkPtr>();
}

}  // namespace rocecoll::torch_adapter

#endif
