// SPDX-License-Identifier: Apache-2.0
// What a seed stands for: processes, their network, what they call, and what goes wrong when.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "engine/engine.h"
#include "transport/datagram/reliability/connection.h"
#include "transport/sim/sim_network.h"

namespace rocecoll {

// A set of ranks, bit by bit.
using RankSet = uint32_t;
inline RankSet One(Rank rank) { return RankSet{1} << rank; }
inline RankSet All(uint32_t ranks) { return One(ranks) - 1; }
inline bool Contains(RankSet set, Rank rank) { return (set >> rank & 1) != 0; }

struct SwarmFault {
  enum class Kind : uint8_t {
    kStorm,    // the network towards `to` loses and mixes up more than usual
    kSlow,     // it takes much longer
    kNarrow,   // it carries smaller datagrams only
    kPause,    // the processes `from` do not run
    kCut,      // nothing from `from` reaches `to`
    kRefuse,   // the ports of `from` take nothing
    kKill,     // the process `from` dies without a word
    kRestart,  // so does this one; at the end of the fault another has its address
  };
  Kind kind = Kind::kStorm;
  Duration at{0};
  Duration length{0};  // kKill: without meaning
  RankSet from = 0;
  RankSet to = 0;
  SimWire wire;  // kStorm, kSlow, kNarrow: added to what the network is otherwise
};

// What the ranks call, in this order, at their own pace.
struct SwarmJob {
  enum class Kind : uint8_t {
    kCollective,
    kMessages,  // each of some ranks sends one message to `root`, which names the sources or not
  };
  Kind kind = Kind::kCollective;
  uint32_t group = 0;
  Collective collective = Collective::kBarrier;
  uint64_t elements = 0;
  uint64_t part_elements = 1;
  Rank root = 0;
  bool in_place = false;
  bool uniform = true;
  RankSet senders = 0;
  bool any_source = false;
};

struct SwarmPlan {
  uint64_t seed = 0;
  uint32_t ranks = 2;
  uint32_t groups = 1;
  SimPortOptions port;
  SimWire wire;
  // That all datagrams of all ranks go through. 0 bytes per second: there is none.
  SimQueue queue{.bytes_per_second = 0};
  bool report_unreachable = false;
  ConnectionOptions connection;
  EngineOptions engine;
  MessengerOptions messenger;
  uint32_t depth = 1;  // calls that a rank has open at once
  Duration max_think{0};
  bool warm = false;  // all ranks have met before anything goes wrong
  std::vector<SwarmJob> jobs;
  std::vector<SwarmFault> faults;
  Duration heal_at{0};  // all faults are over, and the network is as it should be

  // Everything that goes wrong does so that much later.
  void delay_faults(Duration by) {
    for (SwarmFault& fault : faults) fault.at += by;
    heal_at += by;
  }
};

}  // namespace rocecoll
