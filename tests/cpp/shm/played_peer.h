// SPDX-License-Identifier: Apache-2.0
// A path whose peer is played by the test: it holds both rings and may write anything into them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "conformance/world.h"
#include "transport/fast_paths/shm/shm_device.h"
#include "transport/fast_paths/shm/shm_path.h"

namespace rocecoll {

using Kind = RingEntry::Kind;

// More looks than anything here takes: what has not come by then does not come.
inline constexpr int kLooks = 20;

inline uint64_t AddressOf(const void* memory) { return reinterpret_cast<uint64_t>(memory); }

inline RingEntry Entry(Kind kind, uint32_t slice = 0, uint64_t address = 0, uint64_t length = 0) {
  RingEntry entry;
  entry.kind = kind;
  entry.slice = slice;
  entry.last = 1;
  entry.address = address;
  entry.length = length;
  return entry;
}

class PlayedPeer {
 public:
  static constexpr uint64_t kNonce = 5;
  static constexpr uint32_t kSlot = 3;

  ShmEnd end() const { return {socket_.name(), kNonce, kSlot, HostFacts::Read()}; }
  // Takes the victim's greeting, and with it its ring.
  bool hear() {
    auto received = socket_.receive();
    if (!received || !received->greeting || received->greeting->nonce != kNonce) return false;
    auto ring = SharedSegment::Map(std::move(received->ring), kRingSegmentBytes);
    auto bell = SharedSegment::Map(std::move(received->doorbell), DoorbellPage::kBytes);
    if (!ring.ok() || !bell.ok()) return false;
    ring_ = ring.take();
    bell_.emplace(bell.take());
    writer_.emplace(ring_.data());
    return true;
  }
  // False: the victim has to read first.
  bool greet(const ShmEnd& victim) const { return greet_with(victim, own_.descriptor()); }
  bool greet_with(const ShmEnd& victim, int ring) const {
    const HostGreeting greeting{socket_.name(), victim.nonce, static_cast<uint32_t>(victim.slot)};
    return socket_.greet(HostSocketAddress(victim.socket), greeting, ring, doorbell_.descriptor())
        .take();
  }
  // Has `path` take it for this process, and this descriptor for that of the process's end.
  void greet_as(ShmPath& path, pid_t process, Descriptor end) const {
    auto bell = SharedSegment::Map(Descriptor(::dup(doorbell_.descriptor())), DoorbellPage::kBytes);
    auto ring = SharedSegment::Map(Descriptor(::dup(own_.descriptor())), kRingSegmentBytes);
    path.on_greeting(std::make_shared<PeerProcess>(socket_.name(), process,
                                                   PeerDoorbell(bell.take()), std::move(end)),
                     ring.take());
  }
  void say(RingEntry entry, const Bytes& payload = {}) {
    std::byte* room = writer_->reserve(payload.size());
    ASSERT_NE(room, nullptr);
    std::ranges::copy(payload, room);
    entry.payload_bytes = static_cast<uint32_t>(payload.size());
    writer_->publish(entry);
  }
  void probe() { say(Entry(Kind::kProbe, 0, AddressOf(&cookie_), cookie_)); }
  // What was where its program had it is gone, and something else may be there.
  void run_another_program() { cookie_ = 0; }
  void ring(const ShmEnd& victim) { bell_->ring(static_cast<uint32_t>(victim.slot)); }
  // Of the ring that the victim writes, and of the one that it reads.
  RingHeader& own_header() { return reader_.header(); }
  RingHeader& victims_header() { return writer_->header(); }
  // Takes the next message as an honest reader would.
  std::optional<RingEntry> take() {
    const auto message = reader_.next();
    if (!message) return std::nullopt;
    reader_.advance();
    reader_.free_read();
    return message->entry;
  }

 private:
  HostSocket socket_ = HostSocket::Open().take();
  Doorbell doorbell_ = Doorbell::Create().take();
  SharedSegment own_ = SharedSegment::Create(kRingSegmentBytes).take();
  SharedSegment ring_;
  std::optional<PeerDoorbell> bell_;
  RingReader reader_{own_.data()};    // of what the victim writes
  std::optional<RingWriter> writer_;  // into the victim's ring
  uint64_t cookie_ = 0x1234567890abcdef;
};

struct Seen {
  FastEvent::Kind kind = FastEvent::Kind::kProgress;
  uint32_t number = 0;
  Bytes frame;
  std::string text;
};

class PathTest : public testing::Test {
 protected:
  PathTest() { EXPECT_TRUE(path_->prepare().ok()); }
  ShmEnd end() const { return *ShmEnd::Parse(path_->ends().addresses.front()); }
  Status connect(const ShmEnd& peer) { return path_->connect({1, {peer.address()}}); }
  // What has happened, without progress.
  std::vector<Seen> look() {
    std::vector<Seen> seen;
    for (int i = 0; i < kLooks; ++i) {
      for (FastEvent event; device_->poll(event);) {
        if (event.kind == FastEvent::Kind::kProgress) continue;
        seen.push_back(
            {event.kind, event.number, {event.frame.begin(), event.frame.end()}, event.text});
        if (event.kind == FastEvent::Kind::kFrame) device_->release(event.lease);
      }
    }
    return seen;
  }
  std::vector<Seen> ring_and_look() {
    peer_.ring(end());
    return look();
  }
  // Up to where the path carries; the peer `fetches` what it is sent, or does not.
  void start(bool fetches = true) {
    start([this] { ASSERT_TRUE(peer_.greet(end())); }, fetches);
  }
  void start(const std::function<void()>& greet, bool fetches = true) {
    ASSERT_TRUE(connect(peer_.end()).ok());
    ASSERT_TRUE(peer_.hear());
    peer_.probe();
    greet();
    ASSERT_TRUE(path_->probe().ok());
    ASSERT_TRUE(look().empty());
    ASSERT_EQ(peer_.take()->kind, Kind::kProbe);
    peer_.own_header().pulls.store(fetches ? 1 : 0);
    ASSERT_TRUE(ring_and_look().empty());
    ASSERT_TRUE(path_->proved());
    path_->start();
  }
  void expose(uint32_t number, size_t size, Intake* intake = nullptr) {
    memory_.assign(size + 2 * kGuard, std::byte{7});
    const LocalSlice into{memory_.data() + kGuard, size, kUnregistered, intake};
    ASSERT_TRUE(path_->expose(number, into).ok());
  }
  Bytes exposed() const { return {memory_.begin() + kGuard, memory_.end() - kGuard}; }
  bool guards_are_whole() const {
    const Bytes guard(kGuard, std::byte{7});
    return std::equal(guard.begin(), guard.end(), memory_.begin()) &&
           std::equal(guard.begin(), guard.end(), memory_.end() - kGuard);
  }
  // The next generation, with another end of the peer's.
  void begin_again() {
    path_->destroy();
    ASSERT_TRUE(path_->prepare().ok());
    peer_ = PlayedPeer();
    start();
  }
  void fetch_a_part_of(const Bytes& source, Intake* intake = nullptr) {
    expose(1, source.size(), intake);
    peer_.say(Entry(Kind::kPull, 1, AddressOf(source.data()), source.size()));
    peer_.ring(end());
    for (FastEvent event; device_->poll(event);) ASSERT_EQ(event.kind, FastEvent::Kind::kProgress);
    EXPECT_NE(exposed(), source);
    if (intake == nullptr) {
      EXPECT_EQ(memory_[kGuard], source.front());
    }
  }
  // Slice 1, as parts of this size through the ring; what has come of that.
  std::vector<Seen> send_parts(const Bytes& source, size_t part_bytes) {
    std::vector<Seen> all;
    for (size_t at = 0; at < source.size(); at += part_bytes) {
      const auto part = std::span(source).subspan(at, std::min(part_bytes, source.size() - at));
      RingEntry entry = Entry(Kind::kPart, 1, at);
      entry.last = at + part.size() == source.size() ? 1 : 0;
      peer_.say(entry, {part.begin(), part.end()});
      const std::vector<Seen> seen = ring_and_look();
      EXPECT_EQ(seen.size(), entry.last) << at;
      std::ranges::copy(seen, std::back_inserter(all));
    }
    return all;
  }
  // What becomes of a path that has exposed slice 1, of `size` bytes, and finds this in its ring.
  Seen after(size_t size, const RingEntry& entry, const Bytes& payload = {}) {
    begin_again();
    expose(1, size);
    peer_.say(entry, payload);
    const std::vector<Seen> seen = ring_and_look();
    EXPECT_EQ(seen.size(), 1u);
    EXPECT_TRUE(guards_are_whole());
    return seen.empty() ? Seen() : seen.front();
  }

  static constexpr size_t kGuard = 4096;
  static constexpr size_t kSeveralFetches = 10 << 20;
  std::unique_ptr<ShmDevice> device_ = ShmDevice::Open({}).take();
  std::unique_ptr<ShmPath> path_{static_cast<ShmPath*>(device_->make_path().release())};
  PlayedPeer peer_;
  Bytes memory_;
};

}  // namespace rocecoll
