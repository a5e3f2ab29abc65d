// SPDX-License-Identifier: Apache-2.0
// A device with memory of its own behind an operation's host memory. Host memory holds poison
// except between a lane's arrival and its store, so that whoever reads too early or too late gets
// wrong results.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "engine/operations/staged_memory.h"

namespace rocecoll {

enum class DeviceCall : uint8_t { kFetch, kFetched, kStore };

// What a device answers: false is for kFetched only, "not there yet".
using DeviceScript = std::function<Result<bool>(DeviceCall, uint32_t lane)>;

class FakeDevice : public StagedMemory {
 public:
  struct Record {
    DeviceCall call = DeviceCall::kFetch;
    uint32_t lane = 0;
    bool answer = false;
    friend bool operator==(const Record&, const Record&) = default;
  };

  explicit FakeDevice(DeviceScript script) : script_(std::move(script)) {}

  // From now on what `host` holds lies on the device.
  template <typename T>
  void mirror(std::vector<T>& host) {
    const std::span bytes = std::as_writable_bytes(std::span(host));
    if (bytes.empty() || mirrors_.contains(bytes.data())) return;
    mirrors_[bytes.data()].assign(bytes.begin(), bytes.end());
    poison({bytes.data(), bytes.size()});
  }
  // The device's memory in the host's place, to be looked at.
  void take_back() {
    for (auto& [host, device] : mirrors_) std::memcpy(host, device.data(), device.size());
  }
  const std::vector<Record>& records() const { return records_; }
  size_t count(DeviceCall call) const {
    return std::ranges::count(records_, call, [](const Record& record) { return record.call; });
  }
  // Where in records() the call was made, with the answer; their number if never.
  size_t when(DeviceCall call, uint32_t lane) const {
    return std::ranges::find(records_, Record{call, lane, true}) - records_.begin();
  }

  Status fetch(uint32_t lane, std::span<const HostRange> input) override {
    EXPECT_FALSE(failed_);
    EXPECT_FALSE(input.empty());
    EXPECT_TRUE(fetches_.empty() || lane > fetches_.rbegin()->first) << lane;
    EXPECT_LE(fetches_.size() - arrived_, kStagedLanesAhead - 1) << lane;
    fetches_[lane].assign(input.begin(), input.end());
    return answer(DeviceCall::kFetch, lane).status();
  }

  Result<bool> fetched(uint32_t lane) override {
    EXPECT_FALSE(failed_);
    EXPECT_TRUE(fetches_.contains(lane)) << lane;
    Result<bool> here = answer(DeviceCall::kFetched, lane);
    if (here.ok() && here.value()) {
      ++arrived_;
      for (const HostRange& range : fetches_[lane]) {
        std::memcpy(range.data, device(range), range.bytes);
      }
    }
    return here;
  }

  Status store(uint32_t lane, std::span<const HostRange> output) override {
    EXPECT_FALSE(failed_);
    EXPECT_FALSE(output.empty());
    for (const HostRange& range : output) {
      std::memcpy(device(range), range.data, range.bytes);
      poison(range);
    }
    return answer(DeviceCall::kStore, lane).status();
  }

 private:
  static void poison(const HostRange& range) { std::memset(range.data, 0xa5, range.bytes); }
  Result<bool> answer(DeviceCall call, uint32_t lane) {
    Result<bool> result = script_(call, lane);
    records_.push_back({call, lane, result.ok() && result.value()});
    if (!result.ok()) failed_ = true;
    return result;
  }
  std::byte* device(const HostRange& range) {
    auto it = mirrors_.upper_bound(range.data);
    EXPECT_TRUE(it != mirrors_.begin());
    --it;
    const size_t offset = range.data - it->first;
    EXPECT_LE(offset + range.bytes, it->second.size());
    return it->second.data() + offset;
  }

  const DeviceScript script_;
  std::map<std::byte*, std::vector<std::byte>> mirrors_;  // by host address
  std::map<uint32_t, std::vector<HostRange>> fetches_;    // by lane
  std::vector<Record> records_;
  size_t arrived_ = 0;
  bool failed_ = false;
};

}  // namespace rocecoll
