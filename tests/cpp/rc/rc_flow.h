// SPDX-License-Identifier: Apache-2.0
// Traffic without an end in both directions of a link, whatever happens to its paths.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/run_choice.h"
#include "rc/rc_pair.h"

namespace rocecoll {

// Frames and one write after the other from one end to the other: each once, in order, bit-exact.
class Flow {
 public:
  Flow(Link* from, Link* to, LinkRecord& at_from, LinkRecord& at_to, size_t write_bytes)
      : from_(from), to_(to), at_from_(at_from), at_to_(at_to), target_(write_bytes) {}

  // Looks at what has come; sends further frames and writes if there is to be `more`. The sender
  // learns of an exposed slice no sooner than a frame of the flow `back` could have told it.
  void step(bool more, const Flow& back) {
    for (const Bytes& frame : at_to_.frames) EXPECT_EQ(frame, Frame(received_++));
    at_to_.frames.clear();
    while (more && sent_ < received_ + 20 && from_->send_frame(Frame(sent_))) ++sent_;
    if (writing_ && at_from_.written.size() == 1 && at_to_.landed.size() == 1) {
      EXPECT_TRUE(target_ == source_) << "write " << writes_;
      at_from_.written.clear();
      at_to_.landed.clear();
      writing_ = false;
      ++writes_;
    }
    if (writing_ || !more) return;
    if (!slice_) {
      slice_ = to_->expose({target_.data(), target_.size(), kUnregistered}, 1);
      told_by_ = back.sent_;
    }
    if (back.received_ <= told_by_) return;
    source_ = RandomBytes(target_.size(), writes_);
    writing_ = from_->write(*slice_, {source_.data(), source_.size(), kUnregistered}, 1);
    EXPECT_TRUE(writing_);
    slice_.reset();
  }
  bool quiet() const { return sent_ == received_ && !writing_; }
  std::string text() const {
    return std::to_string(sent_) + " frames sent, " + std::to_string(received_) + " received, " +
           std::to_string(writes_) + " writes done, " + std::to_string(at_from_.written.size()) +
           " written, " + std::to_string(at_to_.landed.size()) + " landed";
  }
  uint64_t received() const { return received_; }
  uint64_t writes() const { return writes_; }

 private:
  static Bytes Frame(uint64_t i) {
    return RandomBytes(1 + i * 37 % RcOptions::kMaxFrameBytes, i + 1000);
  }

  Link* from_;
  Link* to_;
  LinkRecord& at_from_;
  LinkRecord& at_to_;
  Bytes source_;
  Bytes target_;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  uint64_t writes_ = 0;
  bool writing_ = false;
  std::optional<RemoteSlice> slice_;  // exposed, for the next write
  uint64_t told_by_ = 0;
};

// For traffic without an end: but for the nightly run slow wires, of which a second is soon
// simulated.
inline void SetWires(RcWorldOptions& options, double bytes_per_second = 3e7) {
  options.rdma.bytes_per_second = IsNightly() ? 1e9 : bytes_per_second;
  options.wire.latency = std::chrono::microseconds(50);
  options.wire.bytes_per_second = options.rdma.bytes_per_second / 10;
}

// A pair whose traffic goes on in both directions.
struct BusyPair : Pair {
  explicit BusyPair(const RcWorldOptions& options = {}, size_t write_bytes = 100'000)
      : Pair(options),
        flows{Flow(a, b, at_a(), at_b(), write_bytes), Flow(b, a, at_b(), at_a(), write_bytes)} {}

  bool on_path() const {
    return transports[0]->links_on_path() == 1 && transports[1]->links_on_path() == 1;
  }
  // False if it has not come to `done` in time. Time passes in steps, as traffic would not let it.
  bool work_until(const std::function<bool()>& done, Duration limit, bool more = true) {
    constexpr Duration kStep = std::chrono::milliseconds(1);
    for (const Instant end = now() + limit; now() < end;) {
      flows[0].step(more, flows[1]);
      flows[1].step(more, flows[0]);
      if (done()) return true;
      run_for(kStep);
    }
    return done();
  }
  void work_for(Duration duration) {
    work_until([] { return false; }, duration);
  }
  // All that was sent arrives, and neither end is down.
  void settle() {
    EXPECT_TRUE(work_until([&] { return flows[0].quiet() && flows[1].quiet(); },
                           std::chrono::seconds(60), /*more=*/false))
        << flows[0].text() << "; " << flows[1].text();
    EXPECT_TRUE(at_a().down.empty() && at_b().down.empty());
  }

  std::array<Flow, 2> flows;
};

}  // namespace rocecoll
