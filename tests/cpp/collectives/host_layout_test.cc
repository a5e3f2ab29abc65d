// SPDX-License-Identifier: Apache-2.0
#include "collectives/host_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "collectives/host_layouts.h"

namespace rocecoll {
namespace {

TEST(HostLayout, NumbersHostsByTheirLowestRanks) {
  const HostLayout layout(HostsOfRanks{7, 3, 7, 3, 3, 9});
  EXPECT_EQ(layout.hosts(), 3u);
  EXPECT_EQ(layout.host_of(0), 0u);
  EXPECT_EQ(layout.host_of(4), 1u);
  EXPECT_EQ(layout.host_of(5), 2u);
  EXPECT_EQ(layout.index_of(4), 2u);
  EXPECT_EQ(layout.rank_at(1, 2), 4u);
  EXPECT_EQ(layout.ranks_on(1), 3u);
  EXPECT_EQ(layout.most_on_a_host(), 3u);
  EXPECT_EQ(layout.fewest_on_a_host(), 1u);
  EXPECT_FALSE(layout.even());
  EXPECT_EQ(layout.first_place(1), 2u);
  EXPECT_EQ(layout.place_of(4), 4u);
  // 6 on hosts of 2 and of 3 ranks, each from all of them.
  EXPECT_EQ(layout.most_dealt_blocks(), 6u);
  EXPECT_EQ(std::vector<Rank>(layout.by_host().begin(), layout.by_host().end()),
            (std::vector<Rank>{0, 2, 1, 3, 4, 5}));
}

TEST(HostLayout, SpansHostsWhereSeveralHaveRanksAndOneHasSeveral) {
  EXPECT_FALSE(HostLayout(HostsOfRanks{0}).spans_hosts());
  EXPECT_FALSE(HostLayout(HostsOfRanks{4, 4, 4}).spans_hosts());
  EXPECT_FALSE(HostLayout(HostsOfRanks{0, 1, 2}).spans_hosts());
  EXPECT_TRUE(HostLayout(HostsOfRanks{0, 1, 0}).spans_hosts());
}

// Every cell belongs to one rank of its host, and every rank has the columns that at() says, in
// order.
TEST(HostLayout, DealsColumnsToTheRanksOfEachHost) {
  for (uint32_t ranks = 1; ranks <= 40; ++ranks) {
    for (const HostsOfRanks& hosts : LayoutsOf(ranks)) {
      const HostLayout layout(hosts);
      ASSERT_GE(layout.columns(), layout.fewest_on_a_host());
      for (uint32_t host = 0; host < layout.hosts(); ++host) {
        uint32_t next = 0;
        for (uint32_t index = 0; index < layout.ranks_on(host); ++index) {
          const auto columns = layout.columns_of(host, index);
          ASSERT_EQ(columns.first, next) << Text(hosts);
          ASSERT_LE(columns.end - columns.first, HostLayout::kMostColumnsOfARank);
          for (; next < columns.end; ++next) {
            ASSERT_EQ(layout.at(next, host), layout.rank_at(host, index)) << Text(hosts);
          }
        }
        ASSERT_EQ(next, layout.columns()) << Text(hosts);
      }
    }
  }
}

TEST(HostLayout, GivesEachRankACellUnlessAHostIsMuchSmallerThanAnother) {
  for (uint32_t ranks = 1; ranks <= 40; ++ranks) {
    for (const HostsOfRanks& hosts : LayoutsOf(ranks)) {
      const HostLayout layout(hosts);
      const bool expected = layout.most_on_a_host() <= 7 * layout.fewest_on_a_host();
      ASSERT_EQ(layout.has_cell_for_each_rank(), expected) << Text(hosts);
      if (!expected) continue;
      ASSERT_EQ(layout.owners().size(), layout.cells());
      ASSERT_EQ(std::ranges::count(layout.owners(), kNoRank), layout.cells() - ranks);
      for (Rank rank = 0; rank < ranks; ++rank) {
        ASSERT_EQ(layout.owners()[layout.cell_of(rank)], rank) << Text(hosts);
      }
    }
  }
}

// Seven ranks are dealt to four ranks: two to each of the first three, with a block from each of
// the four. Or they are dealt to three ranks: three to the first, with a block from each of the
// three.
TEST(HostLayout, CountsTheBlocksThatADealtVectorMakes) {
  EXPECT_EQ(HostLayout(OfSizes({4, 3})).most_dealt_blocks(), 9u);
  EXPECT_EQ(HostLayout(OfSizes({4, 4})).most_dealt_blocks(), 8u);
  EXPECT_EQ(HostLayout(OfSizes({1, 9})).most_dealt_blocks(), 18u);
}

TEST(HostLayout, ItsHashTellsWhoSharesAHostNotHowHostsAreCalled) {
  EXPECT_EQ(HostLayout(HostsOfRanks{5, 5, 1}).hash(), HostLayout(HostsOfRanks{0, 0, 3}).hash());
  EXPECT_NE(HostLayout(HostsOfRanks{5, 5, 1}).hash(), HostLayout(HostsOfRanks{5, 1, 5}).hash());
}

}  // namespace
}  // namespace rocecoll
