// SPDX-License-Identifier: Apache-2.0
// While a thread captures a stream into a graph, CUDA refuses calls of other threads that might
// disturb that, such as asking whether an event has passed, and ends the capture. A thread may ask
// about other streams if it declares so, as torch's own watchdogs do. torch has no generic call for
// that, and nothing of CUDA is linked here: the driver's function is looked up in the process,
// which has it once a tensor is on such a device. Without it, nothing is done.
#pragma once

namespace rocecoll::torch_adapter {

// While it lives, this thread does not disturb captures of other threads.
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
