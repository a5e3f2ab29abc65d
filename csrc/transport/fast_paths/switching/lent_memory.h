// SPDX-License-Identifier: Apache-2.0
// The writes and the exposed slices of a link that are not over. Each stays with the path that it
// has begun on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "transport/fast_path.h"
#include "transport/fast_paths/switching/switching_wire.h"
#include "transport/transport.h"

namespace rocecoll {

class LentMemory {
 public:
  enum class Pumped : uint8_t { kAll, kNoRoom, kWrongSize };

  explicit LentMemory(uint32_t first_number)
      : next_write_(first_number), next_exposure_(first_number + 1) {}

  bool empty() const { return writes_.empty() && exposures_.empty(); }
  size_t pending_writes() const { return writes_.size(); }
  // The control path has some of it.
  bool lent_to_control() const {
    return std::ranges::any_of(writes_,
                               [](const auto& entry) { return entry.second.on_control; }) ||
           std::ranges::any_of(
               exposures_, [](const auto& entry) { return entry.second.on_control.has_value(); });
  }
  // Neither path can reach any of it any more.
  void abandon() {
    writes_.clear();
    exposures_.clear();
    new_writes_.clear();
    control_writes_.clear();
  }

  // -- writes
  void add_write(const RemoteSlice& to, LocalSlice from, uint32_t token, bool control_carries) {
    const uint32_t number = next_write_++;
    writes_[number] = {to, from, token};
    // The slice may be one that the peer's fast path had exposed before it was given up.
    const bool over_control =
        control_carries || OnControlPath(to) || exposed_by_peer_.contains(ExposedNumber(to));
    (over_control ? control_writes_ : new_writes_).push_back(number);
  }
  void push_writes(PathTraffic& path) {
    for (; !new_writes_.empty(); new_writes_.pop_front()) {
      const Write& write = writes_.at(new_writes_.front());
      path.push_write(new_writes_.front(), write.to, write.from);
    }
  }
  // A write waits until the peer has said where its slice lies on the control path.
  Pumped pump_writes(Link& control) {
    for (size_t left = control_writes_.size(); left > 0; --left) {
      const uint32_t number = control_writes_.front();
      Write& write = writes_.at(number);
      const auto exposed = exposed_by_peer_.find(ExposedNumber(write.to));
      if (exposed == exposed_by_peer_.end()) {
        control_writes_.push_back(number);
      } else if (exposed->second.length != write.from.size) {
        return Pumped::kWrongSize;
      } else if (control.write(exposed->second, write.from, number)) {
        write.on_control = true;
        exposed_by_peer_.erase(exposed);
      } else {
        return Pumped::kNoRoom;
      }
      control_writes_.pop_front();
    }
    return Pumped::kAll;
  }
  // Each returns the owner's token, or nothing if the memory has been abandoned.
  std::optional<uint32_t> take_written(uint32_t number) { return TakeToken(writes_, number); }
  std::optional<uint32_t> take_landed(uint32_t number) { return TakeToken(exposures_, number); }

  // -- exposed slices
  // Returns the number of the slice.
  uint32_t add_exposure(LocalSlice into, uint32_t token) {
    // After 2^32 exposures numbers come again, but for those of slices that are still exposed.
    while (exposures_.contains(next_exposure_)) ++next_exposure_;
    exposures_[next_exposure_] = {into, token, std::nullopt};
    return next_exposure_++;
  }
  // Returns what the peer has to be told.
  WireBytes expose_on_control(uint32_t number, Link& control) {
    Exposure& exposure = exposures_.at(number);
    exposure.on_control = control.expose(exposure.into, number);
    return WriteExposed({number, *exposure.on_control});
  }
  // Returns where the control path has the slice, if it does.
  std::optional<RemoteSlice> take_back(uint32_t number) {
    const auto found = exposures_.find(number);
    ROCECOLL_CHECK(found != exposures_.end());
    const std::optional<RemoteSlice> on_control = found->second.on_control;
    exposures_.erase(found);
    return on_control;
  }
  void on_exposed(const SwitchingExposed& by_peer) {
    if (by_peer.slice.length == 0) {
      exposed_by_peer_.erase(by_peer.number);
    } else {
      exposed_by_peer_[by_peer.number] = by_peer.slice;
    }
  }

  // The fast path was given up: the control path gets what it had. Returns what the peer has to be
  // told.
  std::vector<WireBytes> move_to_control(Link& control) {
    new_writes_.clear();
    control_writes_.clear();
    for (const auto& [number, write] : writes_) {
      if (!write.on_control) control_writes_.push_back(number);
    }
    std::vector<WireBytes> told;
    for (const auto& [number, exposure] : exposures_) {
      if (!exposure.on_control) told.push_back(expose_on_control(number, control));
    }
    return told;
  }

 private:
  struct Write {
    RemoteSlice to;
    LocalSlice from;
    uint32_t token = 0;
    bool on_control = false;  // the control path has it
  };
  struct Exposure {
    LocalSlice into;
    uint32_t token = 0;
    std::optional<RemoteSlice> on_control;
  };

  template <typename Entries>
  static std::optional<uint32_t> TakeToken(Entries& entries, uint32_t number) {
    const auto found = entries.find(number);
    if (found == entries.end()) return std::nullopt;
    const uint32_t token = found->second.token;
    entries.erase(found);
    return token;
  }

  std::unordered_map<uint32_t, Write> writes_;
  uint32_t next_write_;
  std::deque<uint32_t> new_writes_;      // for the fast path, not pushed yet
  std::deque<uint32_t> control_writes_;  // not accepted by the control path yet
  std::unordered_map<uint32_t, Exposure> exposures_;
  uint32_t next_exposure_;
  std::unordered_map<uint32_t, RemoteSlice> exposed_by_peer_;  // on the control path
};

}  // namespace rocecoll
