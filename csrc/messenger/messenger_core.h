// SPDX-License-Identifier: Apache-2.0
// What the channels of one messenger share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "messenger/eager_bounds.h"
#include "messenger/message_table.h"
#include "messenger/messenger.h"
#include "messenger/operation_history.h"

namespace rocecoll {

class PeerChannel;

struct MessengerCore {
  Transport& transport;
  const GroupKey group;
  const Rank self;
  const SharedVector<Address> addresses;
  const MessengerOptions options;
  const EagerBounds eager;
  const TransportLimits limits;  // a large message goes in pieces of max_write_bytes

  MessengerCore(Transport& transport, const GroupKey& group, Rank self,
                SharedVector<Address> addresses, const MessengerOptions& options,
                const TransportLimits& limits)
      : transport(transport),
        group(group),
        self(self),
        addresses(std::move(addresses)),
        options(options),
        eager(EagerBounds::Of(limits, options, this->addresses.size())),
        limits(limits) {}

  // How many of this rank's own collectives are remembered, which are the same towards every peer.
  // A peer that lags, or has had no message from us, may be this far behind.
  static constexpr size_t kRecentOwn = 256;

  OperationHistory ours{kRecentOwn};
  MessageTable messages;
  // Posted messages that have not been announced to the peer, oldest first.
  IntrusiveList<Message, &Message::announce> unannounced;
  std::unordered_map<Link*, PeerChannel*> channels_by_link;
  std::vector<MessageCompletion> completions;
  uint64_t arrivals = 0;
  std::vector<Announcement> announcements;
  std::vector<RetireWord> retire_words;
  std::vector<MessengerFailure> lost;  // at most one for each rank
  uint32_t peers_left = 0;
  std::optional<MessengerFailure> failure;
  std::vector<PeerChannel*> dirty;  // channels with something to do in flush(), each once
  std::vector<std::unique_ptr<std::byte[]>> free_buffers;

  bool failed() const { return failure.has_value(); }
  // The first failure counts.
  void fail(MessengerFailure why) {
    if (!failure) failure = std::move(why);
  }
  void fail(Rank peer, Status why) {
    MessengerFailure what;
    what.status = std::move(why);
    what.peer = peer;
    fail(std::move(what));
  }
  // Buffers for unexpected eager messages: at most one per credit is in use, some are kept.
  std::unique_ptr<std::byte[]> take_buffer() {
    if (free_buffers.empty()) return std::make_unique_for_overwrite<std::byte[]>(eager.bytes);
    auto buffer = std::move(free_buffers.back());
    free_buffers.pop_back();
    return buffer;
  }
  void give_back(std::unique_ptr<std::byte[]> buffer) {
    if (buffer && free_buffers.size() < eager.credits) {
      free_buffers.push_back(std::move(buffer));
    }
  }
};

}  // namespace rocecoll
