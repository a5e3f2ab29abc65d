// SPDX-License-Identifier: Apache-2.0
// Which ranks of a group share a host, and the grid on which programs for several hosts work.
//
// The grid has a cell for each column and host. A column joins corresponding parts of the hosts:
// the columns of each host are dealt to its ranks, in order and as evenly as possible, so that
// every rank has its share of the traffic between hosts. There are as many columns as the largest
// host has ranks, so that each rank there has one. If the ranks of the smallest host would then
// have more columns than a step has room for, there are fewer columns, and some ranks have none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rank.h"
#include "base/status.h"
#include "collectives/program.h"
#include "collectives/topology.h"

namespace rocecoll {

// Returns kInvalidArgument for no ranks, or more than a group can have.
Status CheckRanks(uint64_t ranks);

class HostLayout {
 public:
  // The columns of one rank: each is a send and a receive, beside the copies of a step.
  static constexpr uint32_t kMostColumnsOfARank = (Step::kMaxTransfers - 2) / 2;

  // `host_of_rank` has equal numbers for ranks that share a host; the numbers themselves do not
  // matter. Their count must pass CheckRanks().
  explicit HostLayout(std::span<const uint32_t> host_of_rank);

  // Hosts are numbered by their lowest ranks, and the ranks of each host in ascending order.
  uint32_t ranks() const { return static_cast<uint32_t>(host_of_.size()); }
  uint32_t hosts() const { return static_cast<uint32_t>(begin_.size() - 1); }
  uint32_t host_of(Rank rank) const { return host_of_[rank]; }
  uint32_t index_of(Rank rank) const { return index_of_[rank]; }
  uint32_t ranks_on(uint32_t host) const { return begin_[host + 1] - begin_[host]; }
  Rank rank_at(uint32_t host, uint32_t index) const { return by_host_[begin_[host] + index]; }
  uint32_t most_on_a_host() const { return most_; }
  uint32_t fewest_on_a_host() const { return fewest_; }
  bool even() const { return most_ == fewest_; }
  // True for several hosts, at least one of which has several ranks. Flat programs then also send
  // data over the network that other ranks of the host have or need.
  bool spans_hosts() const { return hosts() > 1 && most_ > 1; }
  // The rounds that a tree or a circulant graph takes among the ranks of the largest host, and
  // among hosts.
  uint32_t local_rounds() const { return CeilLog2(most_); }
  uint32_t host_rounds() const { return CeilLog2(hosts()); }
  // A host deals all ranks to its own ranks in turn, and for each of them it has a block from each
  // of its ranks. This is the largest number of such blocks that one rank of any host gets.
  uint32_t most_dealt_blocks() const { return most_dealt_blocks_; }
  // A hash of which ranks share a host.
  uint64_t hash() const { return hash_; }
  // The ranks of the first host, then those of the second, and so on; and a rank's place in that
  // order.
  std::span<const Rank> by_host() const { return by_host_; }
  uint32_t first_place(uint32_t host) const { return begin_[host]; }
  uint32_t place_of(Rank rank) const { return begin_[host_of_[rank]] + index_of_[rank]; }
  // Whether the ranks are already in that order.
  bool in_order() const { return in_order_; }

  uint32_t columns() const { return columns_; }
  uint32_t cells() const { return columns_ * hosts(); }
  // The columns of rank number `index` of `host`, from first to end - 1.
  struct Columns {
    uint32_t first = 0;
    uint32_t end = 0;
  };
  Columns columns_of(uint32_t host, uint32_t index) const {
    return {first_column(host, index), first_column(host, index + 1)};
  }
  Columns columns_of(Rank rank) const { return columns_of(host_of(rank), index_of(rank)); }
  // The rank of `host` that has this column.
  Rank at(uint32_t column, uint32_t host) const {
    return rank_at(host,
                   static_cast<uint32_t>((uint64_t{column + 1} * ranks_on(host) - 1) / columns_));
  }

  // Whether each rank has a column, whose first cell may hold a block of its own.
  bool has_cell_for_each_rank() const { return columns_ == most_; }
  uint32_t cell_of(Rank rank) const { return columns_of(rank).first * hosts() + host_of(rank); }
  // The rank whose block lies in each cell, or kNoRank, by cell and column after column.
  std::span<const Rank> owners() const { return owners_; }

 private:
  uint32_t first_column(uint32_t host, uint32_t index) const {
    return static_cast<uint32_t>(uint64_t{index} * columns_ / ranks_on(host));
  }

  std::vector<uint32_t> host_of_;   // by rank
  std::vector<uint32_t> index_of_;  // by rank
  // By host: its first rank in by_host_; the last element is the end.
  std::vector<uint32_t> begin_;
  std::vector<Rank> by_host_;
  std::vector<Rank> owners_;  // by cell
  uint32_t most_ = 0;
  uint32_t fewest_ = 0;
  uint32_t most_dealt_blocks_ = 0;
  uint32_t columns_ = 0;
  uint64_t hash_ = 0;
  bool in_order_ = true;
};

// A rank among those of its host.
struct LocalPlace {
  LocalPlace(const HostLayout& hosts, Rank rank)
      : host(hosts.host_of(rank)), index(hosts.index_of(rank)), ranks(hosts.ranks_on(host)) {}

  uint32_t rounds() const { return CeilLog2(ranks); }

  uint32_t host;
  uint32_t index;
  uint32_t ranks;
};

}  // namespace rocecoll
