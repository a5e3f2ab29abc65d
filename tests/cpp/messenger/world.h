// SPDX-License-Identifier: Apache-2.0
// A few ranks with a messenger each, over the link-level simulator.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "messenger/messenger.h"
#include "transport/sim/sim_fabric.h"
#include "transport/sim/sim_transport.h"

namespace rocecoll {

inline Fingerprint PrintOf(uint8_t what) {
  Fingerprint fingerprint{};
  fingerprint[0] = std::byte{what};
  return fingerprint;
}

// A message of a collective that all ranks call alike, and one of point-to-point traffic.
inline Tag CollectiveTag(uint64_t operation, uint32_t step = 0, uint32_t slot = 0) {
  return Tag{operation, step, slot};
}
inline Tag PointToPointTag(uint64_t number) { return Tag{uint64_t{1} << 63 | number, 0, 0}; }

// Memory whose contents are a function of its seed.
struct Payload {
  explicit Payload(size_t size, uint32_t seed = 0) : bytes(size) {
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(seed * 131 + i * 7 + 1);
  }
  static Payload Blank(size_t size) {
    Payload blank(0);
    blank.bytes.assign(size, std::byte{0xee});
    return blank;
  }
  LocalSlice slice() { return {bytes.data(), bytes.size(), kUnregistered}; }
  friend bool operator==(const Payload&, const Payload&) = default;

  std::vector<std::byte> bytes;
};

struct WorldOptions {
  uint32_t ranks = 2;
  MessengerOptions messenger;
  SimFabricOptions fabric;
};

inline WorldOptions SmallWorld() {
  WorldOptions options;
  options.fabric.max_frame_bytes = 256;  // an eager limit of 200
  options.fabric.preferred_eager_bytes = 1 << 20;
  options.messenger.eager_credits = 4;
  return options;
}

class World {
 public:
  explicit World(const WorldOptions& options) : fabric_(WithRanks(options)) {
    std::vector<Address> addresses;
    for (Rank r = 0; r < options.ranks; ++r) addresses.push_back(fabric_.transport(r).address());
    for (Rank r = 0; r < options.ranks; ++r) {
      messengers_.push_back(std::make_unique<Messenger>(fabric_.transport(r), GroupKey{1, 2}, r,
                                                        addresses, options.messenger));
    }
    done_.resize(options.ranks);
  }

  Messenger& operator[](Rank rank) { return *messengers_[rank]; }
  SimFabric& fabric() { return fabric_; }
  Instant now() const { return fabric_.now(); }
  void destroy(Rank rank) { messengers_[rank].reset(); }

  void send(Rank from, Rank to, const Tag& tag, Payload& payload, uint64_t token,
            const Fingerprint& print = PrintOf(1)) {
    messengers_[from]->send(now(), to, tag, print, payload.slice(), token);
  }
  void recv(Rank at, Rank from, const Tag& tag, Payload& payload, uint64_t token,
            const Fingerprint& print = PrintOf(1)) {
    messengers_[at]->recv(now(), from, tag, print, payload.slice(), token);
  }
  bool run(const std::function<bool()>& done, Duration limit = std::chrono::seconds(2)) {
    return RunUntil(
        fabric_, [this](uint32_t rank, Instant now) { return step(rank, now); }, done, limit);
  }
  // Lets everything happen that will within `time`.
  void settle(Duration time = std::chrono::milliseconds(20)) {
    run([] { return false; }, time);
  }
  bool run_until_done(Rank rank, uint64_t token) {
    return run([&] { return done_[rank].contains(token); });
  }
  // Tokens of what has completed at a rank.
  const std::set<uint64_t>& done(Rank rank) const { return done_[rank]; }
  bool run_until_failure(Rank rank) {
    return run([&] { return messengers_[rank]->failure() != nullptr; });
  }

 private:
  static SimFabricOptions WithRanks(const WorldOptions& options) {
    SimFabricOptions fabric = options.fabric;
    fabric.endpoints = options.ranks;
    return fabric;
  }
  Instant step(uint32_t rank, Instant now) {
    Messenger* messenger = messengers_[rank].get();
    if (messenger == nullptr) return kNever;
    Event events[8];
    size_t count;
    do {
      count = fabric_.transport(rank).poll(now, events);
      for (size_t i = 0; i < count; ++i) messenger->on_event(now, events[i]);
    } while (count > 0);
    messenger->flush(now);
    MessageCompletion completion;
    while (messenger->poll(completion)) {
      EXPECT_TRUE(done_[rank].insert(completion.token).second) << "completed twice";
    }
    return messenger->next_deadline();
  }

  SimFabric fabric_;
  std::vector<std::unique_ptr<Messenger>> messengers_;
  std::vector<std::set<uint64_t>> done_;
};

// One message of `size` bytes from messenger 0 to 1, which arrives whole.
inline void ExpectExchange(const WorldOptions& options, size_t size, bool send_first) {
  World world(options);
  Payload from(size, 3);
  Payload into = Payload::Blank(size);
  if (send_first) {
    world.send(0, 1, CollectiveTag(1), from, 10);
    world.settle();
    world.recv(1, 0, CollectiveTag(1), into, 20);
  } else {
    world.recv(1, 0, CollectiveTag(1), into, 20);
    world.settle();
    world.send(0, 1, CollectiveTag(1), from, 10);
  }
  EXPECT_TRUE(world.run_until_done(0, 10));
  EXPECT_TRUE(world.run_until_done(1, 20));
  EXPECT_EQ(into, from);
  EXPECT_EQ(world[0].failure(), nullptr);
  EXPECT_EQ(world[1].failure(), nullptr);
}

}  // namespace rocecoll
