// SPDX-License-Identifier: Apache-2.0
// A point in a stream. torch's own events set the thread that uses them to their device, and then
// back: where the thread has never used a device this makes a context on the first one.
#pragma once

#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <exception>
#include <optional>

#include "torch/process/capture_mode.h"

namespace rocecoll::torch_adapter {

class DeviceEvent {
 public:
  explicit DeviceEvent(c10::Device device) : device_(device), event_(device.type()) {}
  ~DeviceEvent() {
    try {
      const c10::DeviceGuard guard(device_);
      event_.reset();
    } catch (const std::exception&) {  // the device's runtime has ended, or is of no use any more
    }
  }
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  // Moves it behind what is queued there by now.
  void record(const c10::Stream& stream) {
    const c10::DeviceGuard guard(device_);
    event_->record(stream);
  }
  // Whether the stream has come there.
  bool query() const {
    const RelaxedCapture relaxed;
    return event_->query();
  }
  void block(const c10::Stream& stream) const {
    const c10::DeviceGuard guard(device_);
    event_->block(stream);
  }

 private:
  const c10::Device device_;
  std::optional<c10::Event> event_;
};

}  // namespace rocecoll::torch_adapter
