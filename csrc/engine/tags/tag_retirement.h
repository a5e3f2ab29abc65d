// SPDX-License-Identifier: Apache-2.0
// Keeps few of the tags that point-to-point messages have used: both ends of a pair agree to count
// the messages of idle tags from 0 again.
//
// When a rank has counts of many tags towards a peer, it goes through them once and asks the peer
// about those without a send under way. The peer agrees where it has received as many messages and
// has no further receive posted, and forgets its counts; on its answer the rank does, too. In
// between the rank holds back sends with these tags. Frames of a link arrive in order, so
// everything that either end says about a message with the old count comes before the question or
// the answer, and everything about one with the new count comes after the answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/rank.h"
#include "engine/tags/message_numbers.h"
#include "messenger/messenger.h"

namespace rocecoll {

class TagRetirement {
 public:
  // Both outlive this. Up to `idle_runs` runs of tags are kept for each peer before it is asked.
  TagRetirement(Messenger& messenger, MessageNumbers& numbers, size_t idle_runs)
      : messenger_(messenger), numbers_(numbers), idle_runs_(idle_runs) {}

  // While true, a send to the peer with this tag must not take a number.
  bool holds(Rank to, uint32_t user_tag) const;
  // A send has taken a number.
  void on_send(Rank to);
  // The tags of the group's sends to the peer, or receives from it, that have a number and are not
  // complete, ascending.
  using OpenTags = std::function<std::vector<uint32_t>(Rank peer, bool sends)>;
  // Call after announcements were taken: late ones may have tags that are forgotten here. True if
  // holds() may have become false for some tag.
  bool step(const OpenTags& open);
  // How a peer has broken the protocol, or empty; and which peer did.
  const std::string& offence() const { return offence_; }
  Rank offender() const { return offender_; }

 private:
  using Runs = std::vector<TagRun>;
  // The most questions to a peer that wait for an answer.
  static constexpr size_t kMaxQuestions = 16;

  struct Peer {
    size_t next_pass = 0;       // starts once there are more entries than this
    bool passing = false;       // goes through the tags, or waits for the last answers
    uint64_t next_tag = 0;      // to be looked at in this pass
    std::deque<Runs> asked;     // oldest first
    std::deque<Runs> to_judge;  // questions of the peer
  };

  void on_word(RetireWord word);
  void on_answer(Rank rank, Peer& peer, const Runs& agreed);
  void note_busy(Rank rank);
  void give_up(Peer& peer);
  void answer(Rank rank, Peer& peer, const OpenTags& open);
  void ask(Rank rank, Peer& peer, const OpenTags& open);
  Runs idle_runs(const TagCounts& sends, Peer& peer, const std::vector<uint32_t>& open_tags) const;

  Messenger& messenger_;
  MessageNumbers& numbers_;
  const size_t idle_runs_;
  std::unordered_map<Rank, Peer> peers_;
  std::vector<Rank> busy_;  // ranks with a pass or questions to judge, each once
  size_t asked_ = 0;        // questions to all peers
  bool released_ = false;
  std::string offence_;
  Rank offender_ = 0;
};

}  // namespace rocecoll
