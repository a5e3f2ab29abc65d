// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace rocecoll {

// How much payload a socket's receive memory has room for. The kernel counts the memory of packets:
// 1.02 to 3 bytes for each of payload, by the network device and by what is coalesced. Who may not
// have more than the usual 212992 bytes of it gets half the throughput where the worst is assumed.
// So what waits in the socket is weighed now and then: its charge before all of it is fetched.
// Packets that come in between make a sample too low, so the highest of many is believed, and a
// higher one at once.
class PacketMemory {
 public:
  // Weighed, less says little of large packets.
  static constexpr size_t kLeastPayload = 16 * 1024;
  // A sample costs a system call: one in so many fetches that bring as much, and some in vain, as a
  // fetch that empties the socket is mostly followed by some that find nothing.
  static constexpr uint32_t kFetchesPerSample = 8;
  static constexpr uint32_t kTries = 8;
  static constexpr uint32_t kSamples = 32;  // until they are believed
  // Memory for a byte of payload, as long as it is not known: pages of 4 KiB for Ethernet's frames.
  static constexpr double kMostCharge = 3;
  static constexpr double kMargin = 1.25;

  explicit PacketMemory(size_t memory_bytes) : memory_bytes_(memory_bytes) {}

  // The next fetch is to be a sample.
  bool sample_due() const { return fetches_ >= kFetchesPerSample; }
  // After each fetch. `charged_bytes`: of the socket before it, 0 if that was not asked for.
  // `emptied`: nothing was left.
  void on_fetch(size_t payload_bytes, size_t charged_bytes, bool emptied) {
    const bool heavy = payload_bytes >= kLeastPayload;
    // Of a socket that was not empty after the last fetch, what that took may be charged still.
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
  // May be in flight without drops. Up to a quarter of the memory may stay charged after it was
  // read (forward_deficit of Linux's udp.c).
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
  double believed_ = kMostCharge;  // the highest of the samples before the last kSamples
  double highest_ = 0;             // since then
  uint32_t samples_ = 0;
  uint32_t fetches_ = 0;
  uint32_t tries_ = 0;
  bool emptied_ = true;
};

}  // namespace rocecoll
