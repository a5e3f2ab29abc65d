// SPDX-License-Identifier: Apache-2.0
// All nodes of a world talk to each other at once, and everything must arrive as it was sent.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "conformance/world.h"
#include "transport/gathering.h"

namespace rocecoll {

// A write of random bytes over a link, into memory of its own, or for `intake` to take.
struct RandomWrite {
  RandomWrite(size_t size, uint64_t seed) : source(RandomBytes(size, seed)), target(size) {}

  // False: the queue of writes is full.
  bool start(Link* out, Link* in, uint32_t token, bool with_intake = false) {
    if (with_intake && intake == nullptr) intake = std::make_unique<Gathering>();
    if (!exposed) {
      slice = in->expose({target.data(), target.size(), kUnregistered, intake.get()}, token);
    }
    exposed = true;
    return out->write(slice, {source.data(), source.size()}, token);
  }

  // Once it has landed.
  Bytes received() const {
    Bytes bytes = target;
    if (intake != nullptr) {
      EXPECT_LE(intake->taken_bytes(), bytes.size());
      std::ranges::copy(intake->taken(), bytes.begin());
    }
    return bytes;
  }

  Bytes source;
  Bytes target;
  RemoteSlice slice;
  std::unique_ptr<Gathering> intake;
  bool exposed = false;
};

// Two nodes have links of 20 groups each to a third one; all bring a write and, back, a frame.
inline void TransferOverLinksOfManyGroups(World& world) {
  std::vector<std::pair<Link*, Link*>> links;
  std::vector<RandomWrite> transfers;
  for (uint64_t group = 1; group <= 20; ++group) {
    links.push_back(world.connect(0, 1, group));
    links.push_back(world.connect(2, 1, group));
  }
  for (uint32_t i = 0; i < links.size(); ++i) {
    ASSERT_TRUE(transfers.emplace_back(30000 + i, i).start(links[i].first, links[i].second, i));
    ASSERT_TRUE(links[i].second->send_frame(Text(std::to_string(i))));
  }
  ASSERT_TRUE(world.run([&] {
    return std::ranges::all_of(links, [&](const auto& ends) {
      return world.transferred(ends.first, ends.second, 1) &&
             world.record(ends.first).frames.size() == 1;
    });
  }));
  for (uint32_t i = 0; i < links.size(); ++i) {
    EXPECT_EQ(transfers[i].source, transfers[i].target);
    EXPECT_EQ(world.record(links[i].first).frames[0], Text(std::to_string(i)));
    EXPECT_EQ(world.record(links[i].second).landed, std::vector<uint32_t>{i});
  }
}

struct ExchangeSpec {
  std::vector<size_t> write_sizes;  // a write of each size in every direction
  size_t frames = 0;                // of many sizes, in every direction
  uint32_t disturbances = 0;
  uint64_t seed = 1;  // of when they happen
  Duration limit = std::chrono::seconds(300);
};

class Exchange {
 public:
  Exchange(World& world, const ExchangeSpec& spec) : world_(world), spec_(spec) {
    std::map<std::pair<uint32_t, uint32_t>, Link*> links;
    const auto count = static_cast<uint32_t>(world.nodes.size());
    for (uint32_t a = 0; a < count; ++a) {
      for (uint32_t b = 0; b < count; ++b) {
        if (a != b) links[{a, b}] = world.open(a, b);
      }
    }
    uint64_t seed = 1;
    for (const auto& [ends, link] : links) {
      Direction& d = directions_.emplace_back();
      d.out = link;
      d.in = links[{ends.second, ends.first}];
      const size_t longest = world[ends.first].transport->limits().max_frame_bytes;
      for (size_t i = 0; i < spec.frames; ++i) {
        d.frames.push_back(RandomBytes(i % 3 == 0 ? longest - i % 2 : 1 + i % 200, ++seed));
      }
      for (const size_t size : spec.write_sizes) d.writes.emplace_back(size, ++seed);
    }
  }

  void run() {
    const auto all_arrived = [this] {
      bool all = true;
      for (Direction& d : directions_) all = push(d) && all;
      return all;
    };
    Random random(spec_.seed);
    for (uint32_t i = 0; i < spec_.disturbances; ++i) {
      world_.disturb(i);
      // From the time of one packet to that of many round trips.
      world_.run_for(std::chrono::microseconds(uint64_t{1} << random.below(11)));
      all_arrived();
    }
    const bool done = world_.run(all_arrived, spec_.limit);
    ASSERT_TRUE(done) << progress();
    for (const Direction& d : directions_) {
      EXPECT_EQ(world_.record(d.in).frames, d.frames);
      for (const RandomWrite& write : d.writes) {
        EXPECT_TRUE(write.source == write.received()) << write.source.size() << " bytes";
      }
      EXPECT_FALSE(world_.is_down(d.in));
    }
  }

 private:
  struct Direction {
    Link* out = nullptr;
    Link* in = nullptr;
    std::vector<RandomWrite> writes;
    std::vector<Bytes> frames;
    size_t frames_sent = 0;
    uint32_t writes_started = 0;
  };

  // Hands in what there is room for. True once all has arrived and is confirmed.
  bool push(Direction& d) {
    while (d.frames_sent < d.frames.size() && d.out->send_frame(d.frames[d.frames_sent])) {
      ++d.frames_sent;
    }
    while (d.writes_started < d.writes.size() &&
           d.writes[d.writes_started].start(d.out, d.in, d.writes_started,
                                            /*with_intake=*/d.writes_started % 2 == 1)) {
      ++d.writes_started;
    }
    return world_.record(d.in).frames.size() == d.frames.size() &&
           world_.transferred(d.out, d.in, d.writes.size());
  }
  std::string progress() {
    std::string text;
    for (const Direction& d : directions_) {
      text += std::to_string(d.out->id().local) + " to " + std::to_string(d.out->id().remote) +
              ": " + std::to_string(world_.record(d.in).frames.size()) + " frames, " +
              std::to_string(world_.record(d.in).landed.size()) + " landed, " +
              std::to_string(world_.record(d.out).written.size()) + " written; ";
      if (world_.is_down(d.out)) text += world_.record(d.out).down[0].message() + "; ";
    }
    return text;
  }

  World& world_;
  const ExchangeSpec spec_;
  std::vector<Direction> directions_;
};

inline void ExchangeAll(World& world, const ExchangeSpec& spec) { Exchange(world, spec).run(); }

}  // namespace rocecoll
