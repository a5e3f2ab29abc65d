// SPDX-License-Identifier: Apache-2.0
// Small collectives of groups that span hosts with several ranks each: one rank of every host, its
// leader, deals with the other hosts on behalf of all. This needs the fewest messages between
// hosts; which of the ranks send the bytes does not matter when there are few bytes.
//
// A host's leader is its lowest rank, or the root on the root's host.
#pragma once

#include <cstdint>

#include "collectives/binomial.h"
#include "collectives/doubling.h"
#include "collectives/host_layout.h"
#include "collectives/program.h"
#include "collectives/topology.h"

namespace rocecoll {

// The binomial trees (topology.h) of the ranks of each host around its leader, and of the leaders
// around the root. Edges name ranks as peers.
class LeaderTree {
 public:
  LeaderTree(const HostLayout& hosts, Rank root, Rank rank)
      : hosts_(hosts),
        root_host_(hosts.host_of(root)),
        root_index_(hosts.index_of(root)),
        host_(hosts.host_of(rank)),
        index_(hosts.index_of(rank)) {}

  bool leads() const { return index_ == leader(host_); }
  BinomialEdge local_edge(uint32_t level) const {
    BinomialEdge edge = BinomialEdgeAt(index_, leader(host_), hosts_.ranks_on(host_), level);
    if (edge.role != BinomialEdge::Role::kNone) edge.peer = hosts_.rank_at(host_, edge.peer);
    return edge;
  }
  BinomialEdge host_edge(uint32_t level) const {
    if (!leads()) return {};
    BinomialEdge edge = BinomialEdgeAt(host_, root_host_, hosts_.hosts(), level);
    if (edge.role != BinomialEdge::Role::kNone) {
      edge.peer = hosts_.rank_at(edge.peer, leader(edge.peer));
    }
    return edge;
  }

 private:
  uint32_t leader(uint32_t host) const { return host == root_host_ ? root_index_ : 0; }

  const HostLayout& hosts_;
  uint32_t root_host_;
  uint32_t root_index_;
  uint32_t host_;
  uint32_t index_;
};

inline Step HostLeadersBroadcastStep(const Program& program, Rank rank, uint32_t index) {
  const LeaderTree tree(*program.hosts, program.root, rank);
  const uint32_t host_levels = program.hosts->host_rounds();
  Step step;
  AddBroadcastEdge(index < host_levels ? tree.host_edge(host_levels - 1 - index)
                                       : tree.local_edge(program.steps - 1 - index),
                   Blocks::Run(Buffer::kOutput, 0, program.blocks), step);
  return step;
}

inline Program HostLeadersBroadcast(const ProgramRequest& request) {
  const HostLayout& hosts = *request.hosts;
  return {.steps = hosts.host_rounds() + hosts.local_rounds(),
          .step_function = HostLeadersBroadcastStep,
          .hosts = &hosts};
}

inline Step HostLeadersReduceStep(const Program& program, Rank rank, uint32_t index) {
  const LeaderTree tree(*program.hosts, program.root, rank);
  const uint32_t local_levels = program.hosts->local_rounds();
  Step step;
  AddReduceEdge(
      index < local_levels ? tree.local_edge(index) : tree.host_edge(index - local_levels),
      index == 0, program.blocks, step);
  return step;
}

inline Program HostLeadersReduce(const ProgramRequest& request) {
  const HostLayout& hosts = *request.hosts;
  return {.steps = hosts.local_rounds() + hosts.host_rounds(),
          .step_function = HostLeadersReduceStep,
          .hosts = &hosts};
}

// Allreduce: reduce to the leaders, recursive doubling (doubling.h) among them, broadcast from
// them. Hosts are numbered by their lowest ranks, so leaders are in the order of their ranks, which
// makes the bits equal.
inline Step HostLeadersAllreduceStep(const Program& program, Rank rank, uint32_t index) {
  const HostLayout& hosts = *program.hosts;
  const LeaderTree tree(hosts, 0, rank);
  const uint32_t local_levels = hosts.local_rounds();
  const Doubling doubling(hosts.hosts());
  const Blocks all = Blocks::Run(Buffer::kOutput, 0, program.blocks);
  Step step;
  if (index < local_levels) {
    AddReduceEdge(tree.local_edge(index), index == 0, program.blocks, step);
  } else if (index < local_levels + doubling.steps()) {
    if (index == 0) CopyWholeInput(program.blocks, step);
    if (tree.leads()) {
      AddDoublingStep(
          doubling, hosts.host_of(rank), index - local_levels, all, all,
          [&](uint32_t host) { return hosts.rank_at(host, 0); }, step);
    }
  } else {
    AddBroadcastEdge(tree.local_edge(program.steps - 1 - index), all, step);
  }
  return step;
}

inline Program HostLeadersAllreduce(const ProgramRequest& request) {
  const HostLayout& hosts = *request.hosts;
  return {.steps = 2 * hosts.local_rounds() + Doubling(hosts.hosts()).steps(),
          .step_function = HostLeadersAllreduceStep,
          .hosts = &hosts};
}

// Barrier: the ranks of a host report to their leader; the leaders run a dissemination barrier
// (doubling.h) and then tell the ranks.
inline Step HostLeadersBarrierStep(const Program& program, Rank rank, uint32_t index) {
  const HostLayout& hosts = *program.hosts;
  const LeaderTree tree(hosts, 0, rank);
  const uint32_t local_levels = hosts.local_rounds();
  const uint32_t host_levels = hosts.host_rounds();
  const Blocks told = Blocks::Run(Buffer::kInput, 0, 1);
  const Blocks heard = Blocks::Run(Buffer::kOutput, 0, 1);
  Step step;
  if (index >= local_levels && index < local_levels + host_levels) {
    if (tree.leads()) {
      AddDisseminationRound(
          hosts.host_of(rank), hosts.hosts(), index - local_levels,
          [&](uint32_t host) { return hosts.rank_at(host, 0); }, step);
    }
    return step;
  }
  const bool up = index < local_levels;
  const BinomialEdge edge = tree.local_edge(up ? index : program.steps - 1 - index);
  if (edge.role == BinomialEdge::Role::kNone) return step;
  if ((edge.role == BinomialEdge::Role::kChild) == up) {
    step.send(edge.peer, told);
  } else {
    step.recv(edge.peer, heard);
  }
  return step;
}

inline Program HostLeadersBarrier(const ProgramRequest& request) {
  const HostLayout& hosts = *request.hosts;
  return {.steps = 2 * hosts.local_rounds() + hosts.host_rounds(),
          .step_function = HostLeadersBarrierStep,
          .hosts = &hosts};
}

}  // namespace rocecoll
