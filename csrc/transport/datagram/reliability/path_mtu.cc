// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/reliability/path_mtu.h"

#include <algorithm>

#include "base/check.h"

namespace rocecoll {
namespace {

// The payloads of Ethernet's 1500 bytes under IPv6 and IPv4: what most paths take that do not take
// the MTU of their hosts.
constexpr size_t kEthernetSizes[] = {1500 - 48, 1500 - 28};
// A search ends when it could gain no more than this fraction (1/kPrecision) of the size.
constexpr size_t kPrecision = 64;

}  // namespace

void PathMtu::open(size_t base_bytes, size_t route_limit_bytes, Instant now) {
  ROCECOLL_CHECK(base_bytes > 0 && route_limit_bytes >= base_bytes);
  ROCECOLL_CHECK(base_ == 0 || base_ == base_bytes);
  if (base_ != 0) return set_route_limit(route_limit_bytes);
  base_ = proven_ = base_bytes;
  route_limit_ = size_ = route_limit_bytes;
  black_hole_ = BlackHoleDetector(base_bytes);
  raise_at_ = now + raise_interval_.delay();
}

void PathMtu::set_route_limit(size_t bytes) {
  if (bytes == route_limit_) return;
  const size_t former = limit();
  route_limit_ = bytes;
  on_limit_changed(former);
}

void PathMtu::set_peer_limit(size_t bytes) {
  if (bytes == peer_limit_) return;
  const size_t former = limit();
  peer_limit_ = bytes;
  on_limit_changed(former);
}

void PathMtu::on_limit_changed(size_t former) {
  if (limit() > former) return start_search();
  size_ = std::min(size_, limit());
  proven_ = std::max(base_, std::min(proven_, size_));
  too_large_ = std::min(too_large_, limit() + 1);
  searching_ = searching_ && size_ + 1 < too_large_;
}

void PathMtu::on_acknowledged(size_t bytes, Instant sent_at) {
  black_hole_.on_acknowledged(bytes, sent_at);
  base_black_hole_.on_acknowledged(bytes, sent_at);
  if (bytes > proven_ && sent_at > refuted_at_) grow(sent_at, bytes);
}

void PathMtu::on_lost(size_t bytes, Instant sent_at, Duration round_trip) {
  // A loss says nothing if its size is no longer used, or, to base_black_hole_, exceeds the base.
  if (bytes <= size_) black_hole_.on_lost(bytes, sent_at, round_trip);
  if (bytes <= base_) base_black_hole_.on_lost(bytes, sent_at, round_trip);
}

bool PathMtu::check(Instant now) {
  const uint32_t rounds =
      carries(size_) ? BlackHoleDetector::kRounds : BlackHoleDetector::kUnprovenRounds;
  if (size_ <= base_ || !black_hole_.detected(rounds)) return false;
  ROCECOLL_CHECK(black_hole_.last_lost() <= now);
  refuted_at_ = black_hole_.last_lost();
  black_hole_.reset();
  size_ = proven_ = base_;
  raise_interval_.reset();
  fell_ = true;
  start_search();
  return true;
}

// Begins with the largest size, which works if the verdict was wrong or the path has healed.
void PathMtu::start_search() {
  too_large_ = limit() + 1;
  top_failed_ = false;
  failures_ = 0;
  searching_ = size_ < limit();
}

size_t PathMtu::probe_due() const {
  if (!searching_ || probe_ != 0) return 0;
  ROCECOLL_CHECK(size_ + 1 < too_large_);
  if (!top_failed_) return too_large_ - 1;
  for (const size_t known : kEthernetSizes) {
    if (size_ < known && known < too_large_) return known;
  }
  return size_ + (too_large_ - size_) / 2;
}

void PathMtu::on_probe_sent(size_t bytes) {
  ROCECOLL_CHECK(bytes > 0 && bytes == probe_due());
  probe_ = bytes;
}

void PathMtu::on_probe_acknowledged(Instant now, size_t bytes) {
  if (bytes == probe_) probe_ = 0;
  grow(now, bytes);
}

void PathMtu::on_probe_lost(Instant now, size_t bytes) {
  if (bytes != probe_) return;
  probe_ = 0;
  if (bytes != probe_due()) return;  // the size to probe has changed since it was sent
  if (++failures_ < kMaxProbes) return;
  failures_ = 0;
  top_failed_ = true;
  too_large_ = bytes;
  conclude(now);
}

void PathMtu::grow(Instant now, size_t bytes) {
  bytes = std::min(bytes, limit());
  proven_ = std::max(proven_, bytes);
  if (bytes <= size_) return;
  size_ = bytes;
  too_large_ = std::max(too_large_, size_ + 1);
  failures_ = 0;
  raise_interval_.reset();
  conclude(now);
}

void PathMtu::conclude(Instant now) {
  if (!searching_ || too_large_ - size_ > 1 + size_ / kPrecision) return;
  searching_ = false;
  raise_at_ = now + raise_interval_.delay();
  if (fell_ && size_ < limit() && size_ != told_) {
    news_ = true;
    told_ = size_;
  }
  fell_ = false;
}

void PathMtu::raise(Instant now) {
  if (!searching_ && size_ < limit()) {
    start_search();
    raise_interval_.grow();
  }
  raise_at_ = now + raise_interval_.delay();
}

bool PathMtu::take_news() {
  const bool news = news_ && size_ < limit();  // unless a late acknowledgement proved it wrong
  news_ = false;
  return news;
}

}  // namespace rocecoll
