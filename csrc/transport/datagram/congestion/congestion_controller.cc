// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/congestion/congestion_controller.h"

#include "transport/datagram/congestion/cubic.h"
#include "transport/datagram/congestion/fixed_window.h"
#include "transport/datagram/congestion/model.h"

namespace rocecoll {
namespace {

// A burst is what goes out in this time, between two packets and a message of segmentation offload:
// C.send_quantum (draft-ietf-ccwg-bbr-06 section 5.6.3), with 50 us in place of 1 ms
// (bottleneck_test).
constexpr Duration kBurstTime = std::chrono::microseconds(50);
constexpr double kBurstPackets = 2;

}  // namespace

std::unique_ptr<CongestionController> CongestionController::Make(CongestionControl which,
                                                                 uint64_t max_window_bytes) {
  switch (which) {
    case CongestionControl::kNone:
      return std::make_unique<FixedWindow>(max_window_bytes);
    case CongestionControl::kModel:
      return std::make_unique<ModelController>(max_window_bytes);
    case CongestionControl::kCubic:
      return std::make_unique<CubicController>(max_window_bytes);
  }
  ROCECOLL_CHECK(false);
  return nullptr;
}

SendStamp CongestionController::on_sent(Instant now, uint64_t bytes) {
  ROCECOLL_CHECK(bytes > 0);
  in_flight_ += bytes;
  if (bytes > packet_) {
    packet_ = bytes;
    window_ = std::max(window_, std::min(max_window_, kLeastPackets * packet_));
  }
  return take_sent(now, bytes);
}

double CongestionController::burst_bytes(double rate, double strength) const {
  const double burst =
      std::min(rate * Seconds(kBurstTime) * strength, static_cast<double>(Pacer::kOffloadMessage));
  return std::max(burst, kBurstPackets * static_cast<double>(packet_));
}

}  // namespace rocecoll
