// SPDX-License-Identifier: Apache-2.0
#include "messenger/message_table.h"

#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace rocecoll {
namespace {

constexpr size_t kInitialBuckets = 64;

uint64_t HashOf(MessageRole role, Rank peer, const Tag& tag) {
  return HashWords({tag.operation, uint64_t{tag.step} << 32 | tag.slot,
                    uint64_t{peer} << 2 | static_cast<uint64_t>(role)});
}

}  // namespace

MessageTable::MessageTable() : buckets_(kInitialBuckets, nullptr) {}

Message** MessageTable::slot_of(MessageRole role, Rank peer, const Tag& tag, uint64_t hash) {
  Message** slot = &buckets_[hash & (buckets_.size() - 1)];
  while (*slot != nullptr && !((*slot)->hash == hash && (*slot)->role == role &&
                               (*slot)->peer == peer && (*slot)->tag == tag)) {
    slot = &(*slot)->next_in_bucket;
  }
  return slot;
}

Message* MessageTable::find(MessageRole role, Rank peer, const Tag& tag) {
  return *slot_of(role, peer, tag, HashOf(role, peer, tag));
}

Message& MessageTable::insert(MessageRole role, Rank peer, const Tag& tag) {
  if (size_ >= buckets_.size()) grow();
  const uint64_t hash = HashOf(role, peer, tag);
  Message** slot = slot_of(role, peer, tag, hash);
  ROCECOLL_CHECK(*slot == nullptr);
  if (free_.empty()) {
    const auto index = static_cast<uint32_t>(pool_.size());
    pool_.emplace_back().index = index;
    free_.push_back(&pool_.back());
  }
  Message& message = *free_.back();
  free_.pop_back();
  message.role = role;
  message.peer = peer;
  message.tag = tag;
  message.hash = hash;
  message.in_use = true;
  message.next_in_bucket = nullptr;
  *slot = &message;
  ++size_;
  return message;
}

void MessageTable::erase(Message& message) {
  ROCECOLL_CHECK(message.in_use && !message.waiting.linked && !message.control.linked &&
                 !message.announce.linked);
  Message** slot = slot_of(message.role, message.peer, message.tag, message.hash);
  ROCECOLL_CHECK(*slot == &message);
  *slot = message.next_in_bucket;
  message.in_use = false;
  message.payload.reset();
  message.slices.clear();
  message.cleared_bytes = message.written_bytes = 0;
  message.pieces_under_way = 0;
  message.has_slice = false;
  message.cleared = false;
  free_.push_back(&message);
  --size_;
}

Message* MessageTable::at(uint32_t index) {
  return index < pool_.size() && pool_[index].in_use ? &pool_[index] : nullptr;
}

void MessageTable::for_each(const std::function<void(const Message&)>& visit) const {
  for (const Message& message : pool_) {
    if (message.in_use) visit(message);
  }
}

void MessageTable::grow() {
  std::vector<Message*> larger(buckets_.size() * 2, nullptr);
  for (Message* chain : buckets_) {
    while (chain != nullptr) {
      Message* next = chain->next_in_bucket;
      Message*& head = larger[chain->hash & (larger.size() - 1)];
      chain->next_in_bucket = head;
      head = chain;
      chain = next;
    }
  }
  buckets_ = std::move(larger);
}

}  // namespace rocecoll
