// SPDX-License-Identifier: Apache-2.0
// Collectives of groups that span hosts with several ranks each, on the grid of host_layout.h: what
// the ranks of a host can do among themselves stays on the host, and between hosts each column is
// handled separately, by the ranks to which it was dealt. So as few bytes as possible leave or
// enter a host, and every rank carries a part of them.
//
// Reduce-scatter and allgather, both inside a host and between hosts, are those of the circulant
// graph (circulant.h), whose positions are here the ranks of a host, or the hosts. A host with
// fewer ranks than another is idle in rounds that only the larger host needs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "collectives/circulant.h"
#include "collectives/host_layout.h"
#include "collectives/program.h"
#include "collectives/topology.h"

namespace rocecoll {

// The cells in the columns of `count` ranks of a host, from number `first` on, in cyclic order.
inline Blocks CellsOfRanks(const HostLayout& hosts, uint32_t host, Buffer buffer, uint32_t first,
                           uint32_t count) {
  const uint32_t last = first + count - 1;
  const uint32_t on_host = hosts.ranks_on(host);
  const uint32_t begin = hosts.columns_of(host, first).first;
  const uint32_t end =
      hosts.columns_of(host, last % on_host).end + (last < on_host ? 0 : hosts.columns());
  return Blocks::Run(buffer, begin * hosts.hosts() % hosts.cells(), (end - begin) * hosts.hosts());
}

// The cells of `count` hosts, from `first` on in cyclic order, in one column: one run, or two with
// the longer one first, because that is the order which Blocks can express.
inline Blocks CellsOfHosts(const HostLayout& hosts, uint32_t column, Buffer buffer, uint32_t first,
                           uint32_t count) {
  const uint32_t begin = column * hosts.hosts();
  const uint32_t before_end = hosts.hosts() - first;
  if (count <= before_end) return Blocks::Run(buffer, begin + first, count);
  const uint32_t from_begin = count - before_end;
  if (before_end < from_begin) return {buffer, begin, count, from_begin, first};
  return {buffer, begin + first, count, before_end, hosts.cells() - first};
}

// Whether there can be elements in these cells. Cells that belong to nobody are not sent.
inline bool HasBlocks(const Program& program, const Blocks& cells) {
  if (program.order.empty() || program.hosts->even()) return cells.count > 0;
  for (uint32_t i = 0; i < cells.count; ++i) {
    if (program.order[cells.at(i, program.blocks)] != kNoRank) return true;
  }
  return false;
}
inline void SendCells(const Program& program, Rank peer, const Blocks& cells, Step& step) {
  if (HasBlocks(program, cells)) step.send(peer, cells);
}
inline void RecvCells(const Program& program, Rank peer, const Blocks& cells, Step& step) {
  if (HasBlocks(program, cells)) step.recv(peer, cells);
}

// One round of the reduce-scatter inside the host. After all rounds a rank has the host's sums of
// its columns. `held` and `into` are as in circulant.h.
inline void AddLocalReduceRound(const Program& program, Rank rank, uint32_t round, Buffer held,
                                Buffer into, Step& step) {
  const HostLayout& hosts = *program.hosts;
  const LocalPlace own(hosts, rank);
  const auto cells = [&](Buffer buffer, uint32_t first, uint32_t count) {
    return CellsOfRanks(hosts, own.host, buffer, first, count);
  };
  const auto keep = [&](uint32_t first, uint32_t count) {
    if (held == into || count == 0) return;
    const Blocks kept = cells(held, first, count);
    if (kept.count > 0) step.copy(cells(into, first, count), kept);
  };
  if (round >= own.rounds()) return keep(own.index, 1);  // the only rank on its host
  const CirculantRound at(own.index, own.ranks, round);
  keep(After(own.index, at.count, own.ranks), at.idle());
  SendCells(program, hosts.rank_at(own.host, at.far), cells(held, at.far, at.count), step);
  if (HasBlocks(program, cells(into, at.near, at.count))) {
    step.recv_reduce(hosts.rank_at(own.host, at.behind), cells(into, at.near, at.count),
                     cells(held, at.near, at.count));
  }
}

// One round of the allgather, inside the host, of the columns that its ranks have.
inline void AddLocalGatherRound(const Program& program, Rank rank, uint32_t round, Step& step) {
  const HostLayout& hosts = *program.hosts;
  const LocalPlace own(hosts, rank);
  if (round >= own.rounds()) return;
  const CirculantRound at(own.index, own.ranks, own.rounds() - 1 - round);
  SendCells(program, hosts.rank_at(own.host, at.behind),
            CellsOfRanks(hosts, own.host, Buffer::kOutput, at.near, at.count), step);
  RecvCells(program, hosts.rank_at(own.host, at.far),
            CellsOfRanks(hosts, own.host, Buffer::kOutput, at.far, at.count), step);
}

// One round of the reduce-scatter between hosts, in each of the rank's columns. After all rounds
// the rank has the sum of its host's cell in each column. The last round adds only to that cell;
// `last` says where it leaves the sum if not in `held`.
inline void AddExchangeReduceRound(const Program& program, Rank rank, uint32_t round, Buffer held,
                                   const std::optional<Blocks>& last, Step& step) {
  const HostLayout& hosts = *program.hosts;
  const CirculantRound at(hosts.host_of(rank), hosts.hosts(), round);
  const HostLayout::Columns columns = hosts.columns_of(rank);
  for (uint32_t column = columns.first; column < columns.end; ++column) {
    SendCells(program, hosts.at(column, at.far),
              CellsOfHosts(hosts, column, held, at.far, at.count), step);
    const Blocks near = CellsOfHosts(hosts, column, held, at.near, at.count);
    if (HasBlocks(program, near)) {
      step.recv_reduce(hosts.at(column, at.behind), last.value_or(near), near);
    }
  }
}

// One round of the allgather between hosts, in each of the rank's columns. Every host starts with
// its own cell.
inline void AddExchangeGatherRound(const Program& program, Rank rank, uint32_t round, Step& step) {
  const HostLayout& hosts = *program.hosts;
  const CirculantRound at(hosts.host_of(rank), hosts.hosts(), hosts.host_rounds() - 1 - round);
  const HostLayout::Columns columns = hosts.columns_of(rank);
  for (uint32_t column = columns.first; column < columns.end; ++column) {
    SendCells(program, hosts.at(column, at.behind),
              CellsOfHosts(hosts, column, Buffer::kOutput, at.near, at.count), step);
    RecvCells(program, hosts.at(column, at.far),
              CellsOfHosts(hosts, column, Buffer::kOutput, at.far, at.count), step);
  }
}

// Allreduce: reduce-scatter inside the host, reduce-scatter and allgather between hosts, allgather
// inside the host. Each part of the sum has one owner, so all ranks get the same bits.
inline Step HostColumnsAllreduceStep(const Program& program, Rank rank, uint32_t index) {
  const HostLayout& hosts = *program.hosts;
  const uint32_t local = hosts.local_rounds();
  const uint32_t exchange = hosts.host_rounds();
  Step step;
  if (index == 0 && local == 0) CopyWholeInput(program.blocks, step);
  if (index < local) {
    AddLocalReduceRound(program, rank, index, HeldIn(index), Buffer::kOutput, step);
  } else if (index < local + exchange) {
    AddExchangeReduceRound(program, rank, index - local, Buffer::kOutput, {}, step);
  } else if (index < local + 2 * exchange) {
    AddExchangeGatherRound(program, rank, index - local - exchange, step);
  } else {
    AddLocalGatherRound(program, rank, index - local - 2 * exchange, step);
  }
  return step;
}

inline Program HostColumnsAllreduce(const ProgramRequest& request) {
  const HostLayout& hosts = *request.hosts;
  return {.steps = 2 * (hosts.local_rounds() + hosts.host_rounds()),
          .step_function = HostColumnsAllreduceStep,
          .blocks = hosts.cells(),
          .hosts = &hosts};
}

// Reduce-scatter: inside the host, then between hosts, where the last round adds only to the rank's
// own block, in the output.
inline Step HostColumnsReduceScatterStep(const Program& program, Rank rank, uint32_t index) {
  const HostLayout& hosts = *program.hosts;
  const uint32_t local = hosts.local_rounds();
  Step step;
  if (index < local) {
    AddLocalReduceRound(program, rank, index, index == 0 ? Buffer::kInput : Buffer::kWork,
                        Buffer::kWork, step);
    return step;
  }
  std::optional<Blocks> output;
  if (index + 1 == program.steps) output = Blocks::Run(Buffer::kOutput, 0, 1);
  AddExchangeReduceRound(program, rank, index - local, Buffer::kWork, output, step);
  return step;
}

inline Program HostColumnsReduceScatter(const ProgramRequest& request) {
  const HostLayout& hosts = *request.hosts;
  return {.steps = hosts.local_rounds() + hosts.host_rounds(),
          .work_blocks = hosts.cells(),
          .step_function = HostColumnsReduceScatterStep,
          .blocks = hosts.cells(),
          .order = hosts.owners(),
          .hosts = &hosts};
}

// Allgather: the reduce-scatter backwards. Each block enters a host once.
inline Step HostColumnsAllgatherStep(const Program& program, Rank rank, uint32_t index) {
  const HostLayout& hosts = *program.hosts;
  const uint32_t exchange = hosts.host_rounds();
  Step step;
  if (index == 0) CopyOwnBlock(hosts.cell_of(rank), step);
  if (index < exchange) {
    AddExchangeGatherRound(program, rank, index, step);
  } else {
    AddLocalGatherRound(program, rank, index - exchange, step);
  }
  return step;
}

inline Program HostColumnsAllgather(const ProgramRequest& request) {
  const HostLayout& hosts = *request.hosts;
  return {.steps = hosts.local_rounds() + hosts.host_rounds(),
          .step_function = HostColumnsAllgatherStep,
          .blocks = hosts.cells(),
          .order = hosts.owners(),
          .hosts = &hosts};
}

// Broadcast: binomial scatter of the columns inside the root's host; then each column passes along
// the hosts, from the root's host on, as a chain (ring.h); finally an allgather inside the hosts.
inline Step HostColumnsBroadcastStep(const Program& program, Rank rank, uint32_t index) {
  const HostLayout& hosts = *program.hosts;
  const LocalPlace own(hosts, rank);
  const LocalPlace root(hosts, program.root);
  const uint32_t scatter = root.rounds();
  const uint32_t hops = hosts.hosts() - 1;
  Step step;
  if (index < scatter) {
    if (own.host != root.host) return step;
    const BinomialEdge edge = BinomialEdgeAt(own.index, root.index, own.ranks, scatter - 1 - index);
    if (edge.role == BinomialEdge::Role::kNone) return step;
    const Blocks part =
        CellsOfRanks(hosts, own.host, Buffer::kOutput, edge.child, edge.subtree_size);
    const Rank peer = hosts.rank_at(own.host, edge.peer);
    if (edge.role == BinomialEdge::Role::kParent) SendCells(program, peer, part, step);
    if (edge.role == BinomialEdge::Role::kChild) RecvCells(program, peer, part, step);
    return step;
  }
  if (index >= scatter + hops) {
    AddLocalGatherRound(program, rank, index - scatter - hops, step);
    return step;
  }
  const uint32_t hop = index - scatter;
  const uint32_t distance = Before(own.host, root.host, hosts.hosts());
  const HostLayout::Columns columns = hosts.columns_of(rank);
  for (uint32_t column = columns.first; column < columns.end; ++column) {
    const Blocks cells = CellsOfHosts(hosts, column, Buffer::kOutput, 0, hosts.hosts());
    if (distance == hop) step.send(hosts.at(column, After(own.host, 1, hosts.hosts())), cells);
    if (distance == hop + 1) {
      step.recv(hosts.at(column, Before(own.host, 1, hosts.hosts())), cells);
    }
  }
  return step;
}

inline Program HostColumnsBroadcast(const ProgramRequest& request) {
  const HostLayout& hosts = *request.hosts;
  const uint32_t scatter = LocalPlace(hosts, request.root).rounds();
  return {.steps = scatter + hosts.hosts() - 1 + hosts.local_rounds(),
          .step_function = HostColumnsBroadcastStep,
          .blocks = hosts.cells(),
          .hosts = &hosts};
}

}  // namespace rocecoll
