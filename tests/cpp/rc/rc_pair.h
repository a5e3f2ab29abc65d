// SPDX-License-Identifier: Apache-2.0
// Two ranks with one RC link, and traffic between them that checks itself.
#pragma once

#include <cstdint>
#include <vector>

#include "rc/rc_world.h"

namespace rocecoll {

// Two ranks with one link.
struct Pair : RcWorld {
  explicit Pair(const RcWorldOptions& options = {}, uint32_t count = 2) : RcWorld(count, options) {
    a = open(0, 1);
    b = open(1, 0);
  }
  LinkRecord& at_a() { return at(0, a); }
  LinkRecord& at_b() { return at(1, b); }
  Link* a = nullptr;
  Link* b = nullptr;
};

// Frames and writes in flight in both directions; checks that each comes once, in order, bit-exact.
class CheckedTraffic {
 public:
  explicit CheckedTraffic(Pair& pair, size_t write_bytes = 100'000, uint32_t writes = 8)
      : pair_(pair), write_bytes_(write_bytes), writes_(writes) {
    for (uint32_t i = 0; i < writes; ++i) {
      source_.push_back(RandomBytes(write_bytes, i));
      target_.emplace_back(write_bytes);
    }
    for (uint32_t i = 0; i < writes; ++i) {
      slices_.push_back(pair.b->expose({target_[i].data(), write_bytes, kUnregistered}, 100 + i));
    }
  }
  void start() {
    for (uint32_t i = 0; i < writes_; ++i) {
      EXPECT_TRUE(pair_.a->write(slices_[i], {source_[i].data(), write_bytes_, kUnregistered}, i));
    }
  }
  // Sends frames as far as there is room; true when all have come and all writes are done.
  bool done() {
    send(*pair_.a, sent_a_);
    send(*pair_.b, sent_b_);
    return pair_.at_b().frames.size() == kFrames && pair_.at_a().frames.size() == kFrames &&
           pair_.at_a().written.size() == writes_ && pair_.at_b().landed.size() == writes_;
  }
  void check() {
    EXPECT_TRUE(target_ == source_);
    for (const auto* record : {&pair_.at_a(), &pair_.at_b()}) {
      ASSERT_EQ(record->frames.size(), kFrames);
      for (size_t i = 0; i < kFrames; ++i) EXPECT_EQ(record->frames[i], Frame(i)) << i;
      EXPECT_TRUE(record->down.empty());
    }
  }

 private:
  static constexpr size_t kFrames = 300;
  static Bytes Frame(size_t i) { return RandomBytes(1 + i * 37 % RcOptions::kMaxFrameBytes, i); }
  static void send(Link& link, size_t& sent) {
    while (sent < kFrames && link.send_frame(Frame(sent))) ++sent;
  }

  Pair& pair_;
  const size_t write_bytes_;
  const uint32_t writes_;
  std::vector<Bytes> source_;
  std::vector<Bytes> target_;
  std::vector<RemoteSlice> slices_;
  size_t sent_a_ = 0;
  size_t sent_b_ = 0;
};

// Over a path that works, while rank 1's device registers no memory.
inline void CarryWhatCannotBeRegistered(Pair& pair) {
  ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }));
  pair.fabric.refusals(1).registrations = true;
  CheckedTraffic traffic(pair, 600'000, 4);
  traffic.start();
  EXPECT_TRUE(pair.run([&] { return traffic.done(); }));
  traffic.check();
}

// In half of the steps numbers of 32 bits wrap around before the first writes are done.
inline uint64_t FirstNumber(int step) { return step % 8 < 4 ? 0 : (uint64_t{1} << 32) - 4; }

}  // namespace rocecoll
