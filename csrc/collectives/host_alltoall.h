// SPDX-License-Identifier: Apache-2.0
// Alltoall of equal blocks between hosts with several ranks each, in two legs: first to a rank of
// the same host, and from there straight to the destination, in one message with the blocks that
// the other ranks of the host have for it. Each block is sent twice, but there are far fewer
// messages between hosts.
//
// Places are those of HostLayout::by_host(), in cyclic order, and the vectors are in that order. A
// host of `a` ranks deals all places, starting with its own first one, to its ranks in turn: number
// i has the places at i, i + a, i + 2 a ... Each of them is a row of scratch, with a block from
// every rank of the host. The first one is the rank itself. If all hosts have equally many ranks,
// the others are the ranks with the same number on the other hosts.
//
// A message to the place that is `distance` after the first one behind the host goes in the slot
// distance / f, where f is the fewest ranks on a host. So a rank sends at most one message in a
// slot, because its rows are `a` apart, and receives at most one, because the ends of hosts are at
// least f apart.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/arithmetic.h"
#include "collectives/direct.h"
#include "collectives/host_layout.h"
#include "collectives/program.h"
#include "collectives/topology.h"

namespace rocecoll {

// The blocks for the places that are dealt to rank number `index` of a host, in the input of any
// rank of that host.
inline Blocks BlocksDealtTo(const HostLayout& hosts, uint32_t host, uint32_t index) {
  const uint32_t on_host = hosts.ranks_on(host);
  return {Buffer::kInput, hosts.first_place(host) + index,
          CeilDivide(hosts.ranks() - index, on_host), 1, on_host};
}

// Inside the host: blocks dealt to other ranks go to them, and blocks from them come into the rows.
inline void AddDealing(const HostLayout& hosts, const LocalPlace& own, uint32_t round, Step& step) {
  const Blocks dealt = BlocksDealtTo(hosts, own.host, own.index);
  const auto in_rows = [&](uint32_t of) {
    return Blocks{Buffer::kWork, of, dealt.count, 1, own.ranks};
  };
  if (own.ranks > 1 && round == 0) step.copy(in_rows(own.index), dealt);
  const uint32_t first = 1 + round * kPairwisePeers;
  const uint32_t end = std::min(first + kPairwisePeers, own.ranks);
  for (uint32_t distance = first; distance < end; ++distance) {
    const uint32_t to = After(own.index, distance, own.ranks);
    const uint32_t from = Before(own.index, distance, own.ranks);
    step.send(hosts.rank_at(own.host, to), BlocksDealtTo(hosts, own.host, to));
    step.recv(hosts.rank_at(own.host, from), in_rows(from));
  }
}

// Between hosts: sends a row to each of the rank's places, and receives one from each other host. A
// row is as long as its host has ranks, and arrives at that host's places in the output. A rank
// that is alone on its host has the rows in its input.
inline void AddDelivery(const HostLayout& hosts, const LocalPlace& own, uint32_t round,
                        Step& step) {
  const uint32_t ranks = hosts.ranks();
  const uint32_t own_first = hosts.first_place(own.host);
  const auto row = [&](uint32_t number, uint32_t place) {
    return own.ranks == 1 ? Blocks::Run(Buffer::kInput, place, 1)
                          : Blocks::Run(Buffer::kWork, number * own.ranks, own.ranks);
  };
  if (round == 0) {
    step.copy(Blocks::Run(Buffer::kOutput, own_first, own.ranks), row(0, own_first));
  }
  const uint32_t begin = round * kPairwisePeers * hosts.fewest_on_a_host();
  const uint32_t end = begin + kPairwisePeers * hosts.fewest_on_a_host();
  const uint32_t elsewhere = ranks - own.ranks;
  uint32_t number = begin > own.index ? CeilDivide(begin - own.index, own.ranks) : 0;
  uint32_t distance = own.index + number * own.ranks;
  for (; distance < std::min(end, elsewhere); distance += own.ranks) {
    const uint32_t to = After(own_first, own.ranks + distance, ranks);
    step.send(hosts.by_host()[to], row(++number, to));
  }
  // Goes from each host back to the one before it, by the distance of this rank's place from their
  // ends. If `begin` falls inside a host, the end of that host is nearer than the distances of this
  // step.
  const uint32_t place = own_first + own.index;
  distance = std::max(begin, own.index);
  while (distance < std::min(end, elsewhere + own.index)) {
    const LocalPlace there(hosts, hosts.by_host()[Before(place, distance + 1, ranks)]);
    if (there.index + 1 == there.ranks) {
      step.recv(hosts.rank_at(there.host, distance % there.ranks),
                Blocks::Run(Buffer::kOutput, hosts.first_place(there.host), there.ranks));
    }
    distance += there.index + 1;
  }
}

inline uint32_t DealingRounds(const HostLayout& hosts) {
  return CeilDivide(hosts.most_on_a_host() - 1, kPairwisePeers);
}

inline Step HostAlltoallStep(const Program& program, Rank rank, uint32_t index) {
  const HostLayout& hosts = *program.hosts;
  const LocalPlace own(hosts, rank);
  const uint32_t dealing = DealingRounds(hosts);
  Step step;
  if (index < dealing) {
    AddDealing(hosts, own, index, step);
  } else {
    AddDelivery(hosts, own, index - dealing, step);
  }
  return step;
}

inline Program HostAlltoall(const ProgramRequest& request) {
  const HostLayout& hosts = *request.hosts;
  const uint32_t slots = (hosts.ranks() - 1) / hosts.fewest_on_a_host();
  return {.steps = DealingRounds(hosts) + CeilDivide(slots, kPairwisePeers),
          .work_blocks = hosts.most_dealt_blocks(),
          .step_function = HostAlltoallStep,
          .blocks = request.ranks,
          .order = hosts.by_host(),
          .hosts = &hosts};
}

}  // namespace rocecoll
