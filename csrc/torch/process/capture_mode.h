// SPDX-License-Identifier: Apache-2.0
// CUDA, while some thread captures a stream into a graph, refuses other threads what might disturb
// that, such as asking whether an event has passed, and ends the capture. What does not concern the
// captured stream may be asked all the same by a thread that says so, as torch's own watchdogs do.
// torch has no generic call for that, and nothing of CUDA's is linked here: the driver's is looked
// up in the process, where it is once a tensor is on such a device. Without it nothing is done.
#pragma once

namespace rocecoll::torch_adapter {

// While it lives, this thread disturbs no capture of others.
class RelaxedCapture {
 public:
  RelaxedCapture();
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  int before_ = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
};

}  // namespace rocecoll::torch_adapter
