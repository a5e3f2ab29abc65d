// SPDX-License-Identifier: Apache-2.0
// Two connections joined by two faulty queues in virtual time. The same seed and options give the
// same trace.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/random.h"
#include "transport/datagram/reliability/connection.h"
#include "transport/datagram/reliability/packet_wire.h"

namespace rocecoll {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct ChannelFaults {
  double loss = 0;
  double duplicate = 0;
  double reorder = 0;  // held back by up to ten times the delay
  double corrupt = 0;
  Duration delay = microseconds(50);
  uint64_t drop_mask = 0;  // bit i drops datagram i
  Instant dark_from = kNever;
  Instant dark_until = kNever;

  static ChannelFaults Lossy(double loss) {
    ChannelFaults faults;
    faults.loss = loss;
    return faults;
  }
  static ChannelFaults Everything(double loss) {
    ChannelFaults faults = Lossy(loss);
    faults.duplicate = 0.1;
    faults.reorder = 0.2;
    faults.corrupt = 0.05;
    return faults;
  }
};

inline std::vector<std::byte> TestBytes(size_t size, uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

inline LocalSlice SliceOf(std::vector<std::byte>& bytes) { return {bytes.data(), bytes.size(), 0}; }

class ConnectionPair {
 public:
  struct End {
    Path path{4 * 1024 * 1024};
    std::unique_ptr<Connection> connection;
    std::vector<std::vector<std::byte>> frames;
    std::vector<uint32_t> written;
    std::vector<uint32_t> landed;
    int downs = 0;
    bool owner_closed = false;
    ChannelFaults faults;  // applied to what this end sends
    uint64_t sent = 0;
    uint64_t events_after_end = 0;
  };

  explicit ConnectionPair(uint64_t seed, ChannelFaults faults = {}, ConnectionOptions options = {},
                          bool open_both = true)
      : options_(options), random_(seed) {
    now = Instant{} + seconds(1);
    for (End& end : ends_) end.faults = faults;
    open(0);
    if (open_both) open(1);
  }

  void open(int which) {
    const LinkId link{7, 9, 0, 1};
    end(which).connection =
        std::make_unique<Connection>(options_, which == 0 ? link : link.mirrored(),
                                     0x1000 + static_cast<uint64_t>(which), end(which).path, now);
  }
  void destroy(int which) { end(which).connection.reset(); }
  void close(int which, const Status& why = {}) {
    end(which).owner_closed = true;
    at(which).close(now, why);
  }
  End& end(int which) { return ends_[static_cast<size_t>(which)]; }
  Connection& at(int which) { return *end(which).connection; }

  // Handles everything due now, then moves on to the next event, at most to `limit`. Returns false
  // if nothing will ever be due.
  bool step(Instant limit) {
    settle();
    Instant next = transit_.empty() ? kNever : transit_.begin()->first.first;
    for (int i = 0; i < 2; ++i) {
      if (runs(i)) next = std::min(next, at(i).next_deadline());
    }
    if (next == kNever) return false;
    stuck_ = next <= now ? stuck_ + 1 : 0;
    ROCECOLL_CHECK(stuck_ < 100);  // a deadline in the past that no call moves
    now = std::max(now, std::min(next, limit));
    return true;
  }
  bool run_until(const std::function<bool()>& done, Duration limit = seconds(60)) {
    const Instant deadline = now + limit;
    for (;;) {
      settle();
      if (done()) return true;
      if (now >= deadline || !step(deadline)) return done();
    }
  }
  void run_for(Duration duration) {
    const Instant until = now + duration;
    while (now < until && step(until)) {
    }
    now = until;
    settle();
  }
  // The process of this end does not run for this time. Datagrams that arrive meanwhile are
  // delivered at once when it runs again, with their arrival times.
  void oversleep(int which, Duration length) {
    asleep_ = which;
    run_for(length);
    asleep_ = kNobody;
    for (const auto& [came, datagram] : std::exchange(waiting_, {})) {
      receive(which, datagram.bytes, datagram.marked, came);
    }
  }
  bool establish() {
    return run_until([&] { return at(0).established() && at(1).established(); });
  }

  // Delivers `bytes` to an end as if the network had done so.
  void inject(int to, std::span<const std::byte> bytes) { receive(to, bytes); }

  // Called for every datagram sent, before faults apply.
  std::function<void(int from, std::span<const std::byte>)> on_sent;
  // Whether the network marks a datagram. This is decided once for all of its copies.
  std::function<bool(int from, std::span<const std::byte>)> marks;
  Instant now;
  uint64_t trace = 0;
  uint64_t corrupted = 0;
  uint64_t rejected = 0;
  bool answer_reset = true;     // a connection that is gone answers RESET, as a transport does
  bool answer_not_open = true;  // one that does not exist answers an INIT, as a transport does

 private:
  struct Datagram {
    int to;
    std::vector<std::byte> bytes;
    bool marked = false;
  };

  static constexpr int kNobody = -1;

  bool runs(int which) { return end(which).connection && which != asleep_; }
  void settle() {
    for (int i = 0; i < 2; ++i) {
      if (runs(i) && at(i).next_deadline() <= now) at(i).on_timeout(now);
      drain_events(i);
    }
    transmit();
    while (!transit_.empty() && transit_.begin()->first.first <= now) {
      const Datagram datagram = std::move(transit_.begin()->second);
      transit_.erase(transit_.begin());
      if (datagram.to == asleep_) {
        waiting_.emplace_back(now, datagram);
      } else if (VerifyPacket(datagram.bytes)) {
        receive(datagram.to, datagram.bytes, datagram.marked);
      } else {
        ++rejected;
      }
      transmit();
    }
  }

  void receive(int to, std::span<const std::byte> bytes, bool marked = false,
               Instant came = kNever) {
    const auto header = ParsePacketHeader(bytes);
    if (end(to).connection && !at(to).finished()) {
      if (header && header->type == PacketType::kReset) {
        at(to).on_reset(now);
      } else if (header && header->type == PacketType::kNotOpen) {
        at(to).on_not_open(now);
      } else {
        at(to).on_datagram(now, std::min(came, now), bytes, marked);
      }
      drain_events(to);
    } else if (header && header->type == PacketType::kPacket && answer_reset) {
      std::vector<std::byte> reset(kPacketHeaderBytes);
      WritePacketHeader(reset, {PacketType::kReset, header->connection_id, 0});
      SealPacket(reset, {});
      send(to, std::move(reset));
    } else if (header && header->type == PacketType::kInit && answer_not_open) {
      answer_init(to, ParseInitBody(bytes)->source_id);
    }
  }

  // Not counted among the datagrams of an end, because that end does not exist yet.
  void answer_init(int from, uint64_t id) {
    const ChannelFaults& faults = end(from).faults;
    if (now >= faults.dark_from && now < faults.dark_until) return;
    std::vector<std::byte> answer(kPacketHeaderBytes);
    WritePacketHeader(answer, {PacketType::kNotOpen, id, 0});
    SealPacket(answer, {});
    transit_.emplace(std::pair(now + faults.delay, next_in_transit_++),
                     Datagram{1 - from, std::move(answer)});
  }

  void drain_events(int which) {
    End& e = end(which);
    Event event;
    LentFrames lent;
    while (e.connection && e.connection->poll_event(event, lent)) {
      if (e.downs > 0 || e.owner_closed) ++e.events_after_end;
      switch (event.kind) {
        case Event::Kind::kFrame:
          e.frames.emplace_back(event.frame.begin(), event.frame.end());
          break;
        case Event::Kind::kWritten:
          e.written.push_back(event.token);
          break;
        case Event::Kind::kLanded:
          e.landed.push_back(event.token);
          break;
        case Event::Kind::kDown:
          ++e.downs;
          break;
        case Event::Kind::kNotice:
        case Event::Kind::kIncoming:
          ADD_FAILURE() << "for transports, not for connections";
      }
    }
  }

  void transmit() {
    std::vector<std::byte> space(options_.max_datagram_bytes);
    for (int from = 0; from < 2; ++from) {
      TxDatagram out;
      for (int count = 0; runs(from) && at(from).poll_transmit(now, space, out); ++count) {
        ROCECOLL_CHECK(count < 100000);
        ROCECOLL_CHECK(out.header.size() + out.payload.size() <= options_.max_datagram_bytes);
        std::vector<std::byte> bytes(out.header.begin(), out.header.end());
        bytes.insert(bytes.end(), out.payload.begin(), out.payload.end());
        if (on_sent) on_sent(from, bytes);
        send(from, std::move(bytes));
      }
    }
  }

  void send(int from, std::vector<std::byte> bytes) {
    End& e = end(from);
    const uint64_t count = e.sent++;
    trace = trace * 0x100000001b3ull ^ static_cast<uint64_t>(now.time_since_epoch().count());
    trace = trace * 0x100000001b3ull ^ Crc32c(bytes, static_cast<uint32_t>(from));
    const ChannelFaults& faults = e.faults;
    if (count < 64 && (faults.drop_mask >> count & 1) != 0) return;
    if (now >= faults.dark_from && now < faults.dark_until) return;
    if (random_.chance(faults.loss)) return;
    const bool marked = marks && marks(from, bytes);
    const int copies = random_.chance(faults.duplicate) ? 2 : 1;
    for (int copy = 0; copy < copies; ++copy) {
      Instant arrival = now + faults.delay;
      if (random_.chance(faults.reorder)) {
        arrival += Duration(
            static_cast<int64_t>(random_.below(static_cast<uint64_t>(faults.delay.count()) * 10)));
      }
      auto copied = bytes;
      if (random_.chance(faults.corrupt)) {
        const uint64_t bit = random_.below(copied.size() * 8);
        copied[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
        ++corrupted;
      }
      transit_.emplace(std::pair(arrival, next_in_transit_++),
                       Datagram{1 - from, std::move(copied), marked});
    }
  }

  ConnectionOptions options_;
  Random random_;
  std::array<End, 2> ends_;
  std::map<std::pair<Instant, uint64_t>, Datagram> transit_;
  uint64_t next_in_transit_ = 0;
  int stuck_ = 0;
  int asleep_ = kNobody;
  std::vector<std::pair<Instant, Datagram>> waiting_;  // datagrams for the end that is asleep
};

}  // namespace rocecoll
