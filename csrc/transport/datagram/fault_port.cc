// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/fault_port.h"

#include <algorithm>
#include <utility>

namespace rocecoll {
namespace {

constexpr size_t kMaxHeld = 8192;
// A reordered datagram waits until this many later ones, at most, have passed it ...
constexpr uint64_t kMaxOvertaking = 8;
// ... or for this long when no others come.
constexpr Duration kMaxHoldBack = std::chrono::milliseconds(2);
constexpr uint64_t kByTimeOnly = UINT64_MAX;

}  // namespace

FaultPort::FaultPort(std::unique_ptr<DatagramPort> inner, const FaultOptions& options, Clock clock)
    : inner_(std::move(inner)),
      options_(options),
      clock_(std::move(clock)),
      random_(options.seed) {}

void FaultPort::remove_peer(PeerHandle peer) {
  std::erase_if(held_, [peer](const auto& held) { return held.second.to.index == peer.index; });
  inner_->remove_peer(peer);
}

bool FaultPort::send_to(const Address& address, std::span<const std::byte> datagram) {
  ++counts_.datagrams;
  if (!random_.chance(options_.loss)) return inner_->send_to(address, datagram);
  ++counts_.lost;
  return true;
}

size_t FaultPort::send(std::span<const TxDatagram> batch) {
  const Instant now = clock_();
  for (const TxDatagram& datagram : batch) {
    ++counts_.datagrams;
    if (random_.chance(options_.loss)) {
      ++counts_.lost;
      continue;
    }
    if (random_.chance(options_.duplicate)) {
      ++counts_.duplicated;
      dispatch(now, datagram);
    }
    dispatch(now, datagram);
  }
  pass_on(now);
  send_due(now);
  return batch.size();
}

void FaultPort::dispatch(Instant now, const TxDatagram& datagram) {
  const bool corrupted = random_.chance(options_.corrupt);
  const bool reordered = random_.chance(options_.reorder);
  ++sent_;
  if (!corrupted && !reordered && options_.delay == Duration{0}) {
    passing_.push_back(datagram);
    return;
  }
  Instant due = now + options_.delay;
  uint64_t after_sent = kByTimeOnly;
  if (reordered) {
    ++counts_.reordered;
    due += kMaxHoldBack;
    // With a delay all traffic is held: then time alone makes the order.
    if (options_.delay == Duration{0}) after_sent = sent_ + 1 + random_.below(kMaxOvertaking);
  }
  Held* copy = hold(datagram, due, after_sent);
  if (copy == nullptr || !corrupted || copy->bytes.empty()) return;
  ++counts_.corrupted;
  const uint64_t bit = random_.below(copy->bytes.size() * 8);
  copy->bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
}

FaultPort::Held* FaultPort::hold(const TxDatagram& datagram, Instant due, uint64_t after_sent) {
  if (held_.size() == kMaxHeld) {
    ++counts_.overflowed;
    return nullptr;
  }
  Held held{datagram.to, {datagram.header.begin(), datagram.header.end()}, after_sent};
  held.bytes.insert(held.bytes.end(), datagram.payload.begin(), datagram.payload.end());
  return &held_.emplace(due, std::move(held))->second;
}

void FaultPort::pass_on(Instant now) {
  const size_t accepted = inner_->send(passing_);
  for (size_t i = accepted; i < passing_.size(); ++i) hold(passing_[i], now, kByTimeOnly);
  passing_.clear();
}

void FaultPort::send_due(Instant now) {
  for (auto at = held_.begin(); at != held_.end();) {
    const bool due = at->first <= now;
    if (!due && options_.delay > Duration{0}) return;  // none of the rest goes by count
    if (due || at->second.after_sent <= sent_) {
      const TxDatagram datagram{at->second.to, at->second.bytes, {}};
      if (inner_->send({&datagram, 1}) == 0) return;
      at = held_.erase(at);
    } else {
      ++at;
    }
  }
}

size_t FaultPort::receive(std::span<RxDatagram> batch) {
  if (!held_.empty()) send_due(clock_());
  return inner_->receive(batch);
}

Instant FaultPort::next_deadline() const {
  const Instant inner = inner_->next_deadline();
  return held_.empty() ? inner : std::min(inner, held_.begin()->first);
}

}  // namespace rocecoll
