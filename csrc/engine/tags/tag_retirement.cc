// SPDX-License-Identifier: Apache-2.0
#include "engine/tags/tag_retirement.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "messenger/message_wire.h"

namespace rocecoll {
namespace {

constexpr uint64_t kBehindAllTags = uint64_t{1} << 32;

// `tags` ascending.
bool AnyWithin(const std::vector<uint32_t>& tags, const TagRun& run) {
  const auto at = std::ranges::lower_bound(tags, run.first);
  return at != tags.end() && *at <= run.last;
}

}  // namespace

bool TagRetirement::holds(Rank to, uint32_t user_tag) const {
  if (asked_ == 0) return false;
  const auto peer = peers_.find(to);
  if (peer == peers_.end()) return false;
  return std::ranges::any_of(peer->second.asked, [user_tag](const Runs& runs) {
    const auto behind = std::ranges::upper_bound(runs, user_tag, {}, &TagRun::first);
    return behind != runs.begin() && user_tag <= std::prev(behind)->last;
  });
}

void TagRetirement::on_send(Rank to) {
  const size_t entries = numbers_.sends(to).entries();
  if (entries <= idle_runs_) return;
  Peer& peer = peers_[to];
  if (peer.passing || entries <= peer.next_pass) return;
  peer.passing = true;
  peer.next_tag = 0;
  note_busy(to);
}

void TagRetirement::note_busy(Rank rank) {
  if (std::ranges::find(busy_, rank) == busy_.end()) busy_.push_back(rank);
}

bool TagRetirement::step(const OpenTags& open) {
  released_ = false;
  for (RetireWord& word : messenger_.take_retire_words()) on_word(std::move(word));
  if (busy_.empty()) return released_;
  for (const Rank rank : busy_) {
    Peer& peer = peers_[rank];
    if (!messenger_.connected(rank)) {
      give_up(peer);
    } else {
      answer(rank, peer, open);
      if (peer.passing) ask(rank, peer, open);
    }
  }
  std::erase_if(busy_, [this](Rank rank) {
    const Peer& peer = peers_[rank];
    return !peer.passing && peer.to_judge.empty();
  });
  return released_;
}

void TagRetirement::on_word(RetireWord word) {
  Peer& peer = peers_[word.from];
  if (word.answer) {
    on_answer(word.from, peer, word.runs);
  } else if (peer.to_judge.size() < kMaxQuestions) {
    peer.to_judge.push_back(std::move(word.runs));
    note_busy(word.from);
  } else {
    offence_ = "asked about more tags than any rank does";
    offender_ = word.from;
  }
}

void TagRetirement::on_answer(Rank rank, Peer& peer, const Runs& agreed) {
  const bool asked_for = !peer.asked.empty() && std::ranges::all_of(agreed, [&](const TagRun& run) {
    return std::ranges::find(peer.asked.front(), run) != peer.asked.front().end();
  });
  if (!asked_for) {
    offence_ = "agreed to count tags anew that nobody had asked it about";
    offender_ = rank;
    return;
  }
  for (const TagRun& run : agreed) numbers_.sends(rank).forget(run);
  peer.asked.pop_front();
  --asked_;
  released_ = true;
}

// The peer has left. Sends held back for it will fail like any other send to it.
void TagRetirement::give_up(Peer& peer) {
  released_ = released_ || !peer.asked.empty();
  asked_ -= peer.asked.size();
  peer = {};
}

void TagRetirement::answer(Rank rank, Peer& peer, const OpenTags& open) {
  if (peer.to_judge.empty()) return;
  TagCounts& receives = numbers_.receives(rank);
  const std::vector<uint32_t> open_tags = open(rank, /*sends=*/false);
  while (!peer.to_judge.empty()) {
    Runs agreed = peer.to_judge.front();
    // Queue pairs may report a landed write after a frame that was sent behind it, so a receive may
    // still be open although the counts say that its message is here.
    std::erase_if(agreed, [&](const TagRun& run) {
      return !receives.holds(run) || AnyWithin(open_tags, run);
    });
    if (!messenger_.send_retire(rank, /*answer=*/true, agreed)) return;
    for (const TagRun& run : agreed) receives.forget(run);
    peer.to_judge.pop_front();
  }
}

void TagRetirement::ask(Rank rank, Peer& peer, const OpenTags& open) {
  if (peer.next_tag < kBehindAllTags && peer.asked.size() < kMaxQuestions) {
    const std::vector<uint32_t> open_tags = open(rank, /*sends=*/true);
    while (peer.next_tag < kBehindAllTags && peer.asked.size() < kMaxQuestions) {
      const uint64_t from = peer.next_tag;
      Runs runs = idle_runs(numbers_.sends(rank), peer, open_tags);
      if (runs.empty()) break;
      if (!messenger_.send_retire(rank, /*answer=*/false, runs)) {
        peer.next_tag = from;
        break;
      }
      peer.asked.push_back(std::move(runs));
      ++asked_;
    }
  }
  if (peer.next_tag < kBehindAllTags || !peer.asked.empty()) return;
  peer.passing = false;
  // The remaining entries are in use. Looking at them again pays once as many new ones have come.
  peer.next_pass = 2 * numbers_.sends(rank).entries();
}

// As many as fit into a frame, from peer.next_tag on, which moves past them.
TagRetirement::Runs TagRetirement::idle_runs(const TagCounts& sends, Peer& peer,
                                             const std::vector<uint32_t>& open_tags) const {
  Runs runs;
  const size_t most = MaxTagRuns(messenger_.limits().max_frame_bytes);
  while (runs.size() < most) {
    const auto run = sends.next_run(peer.next_tag);
    if (!run) {
      peer.next_tag = kBehindAllTags;
      break;
    }
    peer.next_tag = uint64_t{run->last} + 1;
    if (!AnyWithin(open_tags, *run)) runs.push_back(*run);
  }
  return runs;
}

}  // namespace rocecoll
