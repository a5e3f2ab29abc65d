// SPDX-License-Identifier: Apache-2.0
#include "engine/operations/message_token.h"

#include <gtest/gtest.h>

#include <set>

namespace rocecoll {
namespace {

TEST(MessageToken, ComesBackAsItWas) {
  for (const uint32_t operation : {0u, 1u, 70'000u, UINT32_MAX}) {
    for (const uint32_t lane : {0u, 1u, 7u, (1u << 30) - 1}) {
      for (const bool sends : {false, true}) {
        for (const bool odd_step : {false, true}) {
          const MessageToken token{operation, lane, sends, odd_step};
          EXPECT_EQ(MessageToken::Of(token.packed()), token);
        }
      }
    }
  }
}

TEST(MessageToken, TellsEveryPartFromTheOthers) {
  const std::set<uint64_t> all = {
      MessageToken{}.packed(),
      MessageToken{1, 0, false, false}.packed(),
      MessageToken{0, 1, false, false}.packed(),
      MessageToken{0, 0, true, false}.packed(),
      MessageToken{0, 0, false, true}.packed(),
  };
  EXPECT_EQ(all.size(), 5u);
}

}  // namespace
}  // namespace rocecoll
