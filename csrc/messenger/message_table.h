// SPDX-License-Identifier: Apache-2.0
// All unfinished messages that a messenger knows, found by (role, peer, tag) in constant time.
// Entries come from a pool, so that nothing is allocated in steady state.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/intrusive_list.h"
#include "messenger/messenger.h"

namespace rocecoll {

enum class MessageRole : uint8_t {
  kSend,        // posted here, not complete
  kRecv,        // posted here, not complete
  kUnexpected,  // an eager message that arrived before its receive was posted
  kCleared,     // a clear-to-send that arrived before its send was posted
};

struct Message {
  MessageRole role = MessageRole::kSend;
  Rank peer = 0;
  Tag tag;
  Fingerprint fingerprint{};
  uint64_t length = 0;
  // kSend, kRecv
  LocalSlice memory;
  uint64_t token = 0;
  Instant posted_at{};
  // A large message goes in pieces, which its receiver clears in order (PeerChannel). For kRecv,
  // those that are exposed but not yet announced to the peer; for kSend and kCleared, slices of the
  // peer that are not yet written to.
  std::vector<RemoteSlice> slices;
  uint64_t cleared_bytes = 0;     // kRecv: exposed so far; kSend, kCleared: by the peer
  uint64_t written_bytes = 0;     // kSend: given to the link
  uint32_t pieces_under_way = 0;  // kRecv: exposed, not landed; kSend: with the link
  bool has_slice = false;
  bool cleared = false;  // kSend: the peer has posted its receive
  // kUnexpected
  uint64_t arrival = 0;
  std::unique_ptr<std::byte[]> payload;

  // The list of its channel in which the message waits, if any; and others that it may be in at the
  // same time.
  ListHook<Message> waiting;
  ListHook<Message> control;   // has a control frame to be sent
  ListHook<Message> announce;  // is to be announced to the peer after a while

  // Kept by MessageTable.
  uint32_t index = 0;
  bool in_use = false;
  uint64_t hash = 0;
  Message* next_in_bucket = nullptr;
};

class MessageTable {
 public:
  MessageTable();

  // The key must be free.
  Message& insert(MessageRole role, Rank peer, const Tag& tag);
  Message* find(MessageRole role, Rank peer, const Tag& tag);
  // The message must be in no list.
  void erase(Message& message);
  // Null if no message with that index is in use.
  Message* at(uint32_t index);
  size_t size() const { return size_; }
  void for_each(const std::function<void(const Message&)>& visit) const;

 private:
  Message** slot_of(MessageRole role, Rank peer, const Tag& tag, uint64_t hash);
  void grow();

  std::deque<Message> pool_;
  std::vector<Message*> free_;
  std::vector<Message*> buckets_;  // a power of two
  size_t size_ = 0;
};

}  // namespace rocecoll
