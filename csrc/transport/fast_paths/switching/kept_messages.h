// SPDX-License-Identifier: Apache-2.0
// The messages of one stream of a FastPath. Each is kept until the peer is known to have it, so
// that it can be sent again in another generation, or over another stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <ranges>
#include <utility>

namespace rocecoll {

template <typename Message>
class KeptMessages {
 public:
  // The first message gets that number, each further one the next.
  explicit KeptMessages(uint64_t first_number) : first_(first_number) {}

  bool empty() const { return messages_.empty(); }
  size_t size() const { return messages_.size(); }
  auto begin() { return messages_.begin(); }
  auto end() { return messages_.end(); }
  // The number of the oldest message.
  uint64_t first() const { return first_; }
  // The number that the next message will get.
  uint64_t pushed() const { return first_ + messages_.size(); }

  Message& push(Message message) { return messages_.emplace_back(std::move(message)); }
  // Moves all messages out, oldest first. Those pushed next are numbered from first() on.
  std::deque<Message> take() {
    sent_ = 0;
    return std::exchange(messages_, {});
  }

  // -- what has been sent in this generation: the oldest messages, none after rewind()
  bool any_sent() const { return sent_ > 0; }
  bool all_sent() const { return sent_ == messages_.size(); }
  // The number of the newest message sent, plus one.
  uint64_t next() const { return first_ + sent_; }
  // The oldest message that has not been sent.
  Message& to_send() { return messages_[sent_]; }
  void on_sent() { ++sent_; }
  void rewind() { sent_ = 0; }
  auto unsent() const {
    return std::ranges::subrange(messages_.begin() + at(sent_), messages_.end());
  }
  // Cuts to_send() in two: `rest` goes out right after it.
  void insert_rest(Message rest) {
    messages_.insert(messages_.begin() + at(sent_) + 1, std::move(rest));
  }

  // -- what the peer has
  Message& front() { return messages_.front(); }
  void pop_front() {
    messages_.pop_front();
    ++first_;
    if (sent_ > 0) --sent_;
  }
  // The peer has all messages before the number `received`: passes each to settle(), then drops it.
  // False if that cannot be true; nothing is dropped then.
  template <typename Settle>
  bool acknowledge(uint64_t received, Settle&& settle) {
    if (received < first_ || received > pushed()) return false;
    while (first_ < received) {
      settle(messages_.front());
      pop_front();
    }
    return true;
  }

 private:
  static std::ptrdiff_t at(size_t index) { return static_cast<std::ptrdiff_t>(index); }

  std::deque<Message> messages_;
  uint64_t first_;
  size_t sent_ = 0;
};

}  // namespace rocecoll
