// SPDX-License-Identifier: Apache-2.0
// How large the datagrams of a path may be: packetization layer path MTU discovery (DPLPMTUD, RFC
// 8899; RFC 9000 section 14.3). Sans-IO; the connections of the path report results and send
// probes.
//
// The RFC starts with a small size and searches upwards. Clusters mostly carry what their
// interfaces promise, so this starts with the size that the route takes, in the state Search
// Complete, and verifies it by use. When large packets vanish while small ones get through, it
// falls back to the base size at once and searches from there.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/backoff.h"
#include "base/time.h"
#include "transport/datagram/reliability/black_hole_detector.h"

namespace rocecoll {

class PathMtu {
 public:
  // Lost probes of one size after which it counts as too large (MAX_PROBES, RFC 8899 5.1.2).
  static constexpr uint32_t kMaxProbes = 3;
  // When to try a larger size after a search. The RFC says 600 s; in a cluster a probe is cheap.
  // The interval doubles up to that as long as searches find nothing.
  static constexpr Duration kRaiseInterval = std::chrono::seconds(10);
  static constexpr Duration kMaxRaiseInterval = std::chrono::seconds(600);
  // Packets up to this size get through wherever IP does (RFC 791: 576 bytes, less headers).
  static constexpr size_t kSmallBytes = 576 - 28;

  // Call for each new connection. The first call sets the base, a size that every usable path
  // carries (BASE_PLPMTU), and the initial size.
  void open(size_t base_bytes, size_t route_limit_bytes, Instant now);
  // What this host knows of the route (its interface, what routers reported), and what the peer
  // takes: the upper bounds of what is sent.
  void set_route_limit(size_t bytes);
  void set_peer_limit(size_t bytes);

  // The size of full datagrams now (PLPMTU).
  size_t size() const { return size_; }
  size_t base() const { return base_; }
  size_t route_limit() const { return route_limit_; }
  size_t limit() const { return route_limit_ < peer_limit_ ? route_limit_ : peer_limit_; }
  bool searching() const { return searching_; }
  // Whether the path has shown that it carries packets of this size, so that the loss of one has
  // another cause.
  bool carries(size_t bytes) const { return bytes <= proven_; }

  // -- packets that the peer acknowledged or that were declared lost, probes not among them
  void on_acknowledged(size_t bytes, Instant sent_at);
  void on_lost(size_t bytes, Instant sent_at, Duration round_trip);
  // Call after these. Falls back, and returns true, if the path has turned out to be a black hole.
  bool check(Instant now);
  // Whether packets of even the base size have been lost for `patience` while smaller ones got
  // through (the Error state of RFC 8899).
  bool refuses_base(Instant now, Duration patience) const {
    return base_black_hole_.lasts(now, patience);
  }

  // -- probes
  // The size of the probe to send now; 0 if none is due.
  size_t probe_due() const;
  void on_probe_sent(size_t bytes);
  void on_probe_acknowledged(Instant now, size_t bytes);
  void on_probe_lost(Instant now, size_t bytes);
  // The fate of the probe in flight will not become known.
  void on_probe_abandoned() { probe_ = 0; }

  // When to look at the route again and call raise(), which tries for a larger size.
  Instant raise_at() const { return raise_at_; }
  void raise(Instant now);

  // True once for each smaller size that a black hole led to.
  bool take_news();

 private:
  void on_limit_changed(size_t former);
  void start_search();
  void grow(Instant now, size_t bytes);
  void conclude(Instant now);

  size_t base_ = 0;
  size_t route_limit_ = 0;
  size_t peer_limit_ = SIZE_MAX;
  size_t size_ = 0;
  size_t proven_ = 0;
  Instant refuted_at_{};  // packets sent later prove their size when acknowledged
  BlackHoleDetector black_hole_{0};
  BlackHoleDetector base_black_hole_{kSmallBytes};

  // The search: packets of size_ get through; too_large_ does not, or exceeds the limit.
  bool searching_ = false;
  size_t too_large_ = 0;
  bool top_failed_ = false;  // the largest size has been tried
  uint32_t failures_ = 0;    // of probes of the current size
  size_t probe_ = 0;         // in flight; 0: none
  Instant raise_at_{};
  Backoff raise_interval_{kRaiseInterval, kMaxRaiseInterval};
  bool fell_ = false;  // this search follows a black hole
  bool news_ = false;
  size_t told_ = 0;
};

}  // namespace rocecoll
