// SPDX-License-Identifier: Apache-2.0
// The streams that carry one backend's copies of one device: one in, one out, so that lanes overlap
// in both directions.
//
// Results are stored by `out` where the caller's stream has come to the call. Where it has not, the
// output may still be in use, and the copy has to wait for that stream: it gets a stream to itself,
// so that results of other calls do not wait with it.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <array>
#include <cstddef>
#include <optional>

namespace rocecoll::torch_adapter {

class CopyStreams {
 public:
  // So many calls may have a stream to themselves; results of further ones are kept on the host
  // meanwhile. torch has 32 streams for everybody.
  static constexpr size_t kLateStreams = 4;

  explicit CopyStreams(c10::Device device);
  CopyStreams(const CopyStreams&) = delete;
  CopyStreams& operator=(const CopyStreams&) = delete;

  const c10::Stream in;
  const c10::Stream out;
  const c10::Stream idle;  // nothing is ever queued there

  // On the device's thread. None: all are taken.
  std::optional<c10::Stream> take_late();
  // What was queued there is done. Of another stream: nothing.
  void give_back(const c10::Stream& stream);

 private:
  struct Late {
    std::optional<c10::Stream> stream;  // once it has been needed
    bool taken = false;
  };

  const c10::Device device_;
  std::array<Late, kLateStreams> late_;
};

}  // namespace rocecoll::torch_adapter
