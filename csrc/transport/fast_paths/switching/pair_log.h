// SPDX-License-Identifier: Apache-2.0
// What people are told of the paths of one link.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/tally.h"
#include "transport/fast_paths/switching/switching_context.h"
#include "transport/transport.h"

namespace rocecoll {

class PairLog {
 public:
  static constexpr size_t kMaxAnnounced = 1024;  // per process

  // All of these outlive it.
  PairLog(SwitchingContext& context, const LinkId& id, const std::string& peer)
      : context_(context), id_(id), peer_(peer) {}

  std::string pair() const {
    return "ranks " + std::to_string(id_.local) + " and " + std::to_string(id_.remote) + " (" +
           peer_ + ")";
  }
  // The owner has closed the link: little of what follows is worth telling.
  void close() { closed_ = true; }
  // Once for each pair and text.
  void announce(const std::string& text, bool warning) {
    if (closed_ || context_.device == nullptr) return;  // without one, that was said once
    const std::string entry = pair() + ": " + text;
    auto& announced = context_.announced;
    if (announced.size() >= kMaxAnnounced || !announced.insert(entry).second) return;
    Log(warning ? Severity::kWarning : Severity::kInfo, entry);
  }
  // The fast path carries.
  void on_carried(const std::string& carrier) {
    if (closed_ || !std::exchange(fell_, false)) return announce(carrier, false);
    const auto tenths = (context_.now - fell_at_) / std::chrono::milliseconds(100);
    Log(Severity::kInfo, pair() + ": again " + carrier + ", after " + std::to_string(tenths / 10) +
                             "." + std::to_string(tenths % 10) + " s over " + control());
  }
  // An attempt has come to nothing, and the control path goes on.
  void on_stayed(const std::string& reason) {
    if (!std::exchange(told_why_, true)) announce("stays on " + control() + ": " + reason, false);
  }
  // The control path carries from now on: from the beginning, or in place of the fast path.
  void on_fallen(const std::string& reason, bool at_first, bool peer_leaves) {
    told_why_ = at_first;
    if (at_first) {
      return announce(control() + ": " + reason, context_.options.expected && !peer_leaves);
    }
    fell_at_ = context_.now;
    fell_ = falls_.count(context_.now);
    if (!fell_ || closed_) return;
    Log(peer_leaves ? Severity::kInfo : Severity::kWarning,
        pair() + ": goes on over " + control() + ": " + reason + falls_.text());
  }

 private:
  const std::string& control() const { return context_.options.words.control; }

  SwitchingContext& context_;
  const LinkId& id_;
  const std::string& peer_;
  bool closed_ = false;
  bool told_why_ = false;  // why the control path carries, since it does
  Tally falls_;            // from the fast path to the control path
  Instant fell_at_{};      // the last time
  bool fell_ = false;      // and people were told of it, but of no return yet
};

}  // namespace rocecoll
