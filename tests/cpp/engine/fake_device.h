// SPDX-License-Identifier: Apache-2.0
// A device with memory of its own behind an operation's buffers, which hold poison all the time, as
// the memory of a lane does before it arrives and after it was stored: whoever reads too early or
// too late, or touches a buffer, gets wrong results.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/operations/staged_memory.h"

namespace rocecoll {

enum class DeviceCall : uint8_t { kFetch, kFetched, kStore };

// What a device answers: false is for kFetched only, "not there yet".
using DeviceScript = std::function<Result<bool>(DeviceCall, uint32_t lane)>;

// How many lanes may have memory at once, of all devices that share it; but for the only one of an
// operation.
struct LaneBudget {
  size_t limit = SIZE_MAX;
  size_t lent = 0;
  size_t most = 0;  // at any time
  bool none = false;
};

class FakeDevice : public StagedMemory {
 public:
  struct Record {
    DeviceCall call = DeviceCall::kFetch;
    uint32_t lane = 0;
    bool answer = false;
    friend bool operator==(const Record&, const Record&) = default;
  };

  explicit FakeDevice(DeviceScript script) : script_(std::move(script)) {}
  FakeDevice(DeviceScript script, std::shared_ptr<LaneBudget> budget)
      : script_(std::move(script)), budget_(std::move(budget)) {}

  // From now on what `host` holds lies on the device.
  template <typename T>
  void mirror(std::vector<T>& host) {
    const std::span bytes = std::as_writable_bytes(std::span(host));
    if (bytes.empty() || mirrors_.contains(bytes.data())) return;
    mirrors_[bytes.data()].assign(bytes.begin(), bytes.end());
    poison(bytes);
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

  // Before anything is taken.
  void share(std::shared_ptr<LaneBudget> budget) { budget_ = std::move(budget); }

  std::span<std::byte> arena() override { return {}; }

  Result<std::byte*> take(size_t bytes) override {
    EXPECT_FALSE(failed_);
    if (budget_->none) {
      failed_ = true;
      return Status(StatusCode::kDevice, "no memory");
    }
    if (!lent_.empty() && budget_->lent >= budget_->limit) return nullptr;
    std::vector<std::byte> memory(bytes, kPoison);
    std::byte* const data = memory.data();
    lent_.emplace(data, std::move(memory));
    budget_->most = std::max(budget_->most, ++budget_->lent);
    return data;
  }
  size_t lanes_with_memory() const { return lent_.size(); }

  Status fetch(uint32_t lane, std::span<const StagedRange> input) override {
    EXPECT_FALSE(failed_);
    EXPECT_FALSE(input.empty());
    for (const StagedRange& range : input) expect_lent(range);
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
      for (const StagedRange& range : fetches_[lane]) {
        std::memcpy(range.host, device(range), range.bytes);
      }
    }
    return here;
  }

  Status store(uint32_t lane, std::byte* memory, std::span<const StagedRange> output) override {
    EXPECT_FALSE(failed_);
    for (const StagedRange& range : output) {
      expect_lent(range);
      std::memcpy(device(range), range.host, range.bytes);
    }
    EXPECT_EQ(lent_.erase(memory), 1u) << lane;
    --budget_->lent;
    return output.empty() ? Status() : answer(DeviceCall::kStore, lane).status();
  }

 private:
  static constexpr std::byte kPoison{0xa5};
  static void poison(std::span<std::byte> memory) { std::ranges::fill(memory, kPoison); }
  void expect_lent(const StagedRange& range) const {
    auto it = lent_.upper_bound(range.host);
    ASSERT_TRUE(it != lent_.begin());
    --it;
    EXPECT_LE(range.host + range.bytes, it->first + it->second.size());
  }
  Result<bool> answer(DeviceCall call, uint32_t lane) {
    Result<bool> result = script_(call, lane);
    records_.push_back({call, lane, result.ok() && result.value()});
    if (!result.ok()) failed_ = true;
    return result;
  }
  std::byte* device(const StagedRange& range) {
    auto it = mirrors_.upper_bound(range.place);
    EXPECT_TRUE(it != mirrors_.begin());
    --it;
    const size_t offset = range.place - it->first;
    EXPECT_LE(offset + range.bytes, it->second.size());
    return it->second.data() + offset;
  }

  const DeviceScript script_;
  std::shared_ptr<LaneBudget> budget_ = std::make_shared<LaneBudget>();
  std::map<std::byte*, std::vector<std::byte>> mirrors_;  // by place
  std::map<std::byte*, std::vector<std::byte>> lent_;     // to lanes, by address
  std::map<uint32_t, std::vector<StagedRange>> fetches_;  // by lane
  std::vector<Record> records_;
  size_t arrived_ = 0;
  bool failed_ = false;
};

}  // namespace rocecoll
