// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace rocecoll {

// How much payload a socket's receive memory has room for. The kernel charges the memory of
// packets: 1.02 to 3 bytes per byte of payload, depending on the network device and on coalescing.
// A process limited to the usual 212992 bytes would get half the throughput if the worst were
// assumed. So what waits in the socket is weighed now and then: the charge is read, then everything
// is fetched. Packets that arrive in between make a sample too low, so the highest of many samples
// is believed; a higher one is believed at once.
class PacketMemory {
 public:
  // A sample of less payload says little of large packets.
  static constexpr size_t kLeastPayload = 16 * 1024;
  // A sample costs a system call, and is taken once per this many fetches of at least
  // kLeastPayload. Up to kTries fetches are tried for it, since a fetch that empties the socket is
  // usually followed by some that find nothing.
  static constexpr uint32_t kFetchesPerSample = 8;
  static constexpr uint32_t kTries = 8;
  static constexpr uint32_t kSamples = 32;  // before their maximum is believed
  // Memory per byte of payload while that is unknown: a page of 4 KiB for each frame of Ethernet.
  static constexpr double kMostCharge = 3;
  static constexpr double kMargin = 1.25;

  explicit PacketMemory(size_t memory_bytes) : memory_bytes_(memory_bytes) {}

  // Whether the next fetch is to be a sample.
  bool sample_due() const { return fetches_ >= kFetchesPerSample; }
  // After each fetch. `charged_bytes`: the socket's charge before it; 0 if that was not read.
  // `emptied`: the fetch left nothing.
  void on_fetch(size_t payload_bytes, size_t charged_bytes, bool emptied) {
    const bool heavy = payload_bytes >= kLeastPayload;
    // If the last fetch did not empty the socket, what it took may still be charged.
    const bool whole = emptied && emptied_;
    emptied_ = emptied;
    if (!sample_due()) {
      fetches_ += heavy ? 1 : 0;
      return;
    }
    const bool weighs = heavy && whole && charged_bytes > 0;
    if (weighs) weigh(payload_bytes, charged_bytes);
    if (weighs || ++tries_ == kTries) fetches_ = tries_ = 0;
  }
  // The payload that may be in flight without drops. Up to a quarter of the memory may stay charged
  // after it was read (forward_deficit in Linux's udp.c).
  size_t payload_bytes() const {
    const double charge = std::min(kMargin * std::max(believed_, highest_), kMostCharge);
    return static_cast<size_t>(static_cast<double>(memory_bytes_ - memory_bytes_ / 4) / charge);
  }

 private:
  void weigh(size_t payload_bytes, size_t charged_bytes) {
    ROCECOLL_CHECK(payload_bytes > 0);
    const double charge = static_cast<double>(charged_bytes) / static_cast<double>(payload_bytes);
    highest_ = std::max(highest_, charge);
    if (++samples_ < kSamples) return;
    believed_ = highest_;
    highest_ = 0;
    samples_ = 0;
  }

  const size_t memory_bytes_;
  double believed_ = kMostCharge;  // the maximum of the last complete kSamples samples
  double highest_ = 0;             // the maximum since then
  uint32_t samples_ = 0;
  uint32_t fetches_ = 0;
  uint32_t tries_ = 0;
  bool emptied_ = true;
};

}  // namespace rocecoll
