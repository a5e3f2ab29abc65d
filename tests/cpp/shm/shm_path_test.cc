// SPDX-License-Identifier: Apache-2.0
// A path whose peer is played by the test: it holds both rings and may write anything into them.
#include "transport/shm/shm_path.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conformance/world.h"
#include "transport/shm/shm_device.h"

namespace rocecoll {
namespace {

using Kind = RingEntry::Kind;

// More looks than anything here takes: what has not come by then does not come.
constexpr int kLooks = 20;

uint64_t AddressOf(const void* memory) { return reinterpret_cast<uint64_t>(memory); }

RingEntry Entry(Kind kind, uint32_t slice = 0, uint64_t address = 0, uint64_t length = 0) {
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
  HostSocket::Sent greet(const ShmEnd& victim) const {
    return greet_with(victim, own_.descriptor());
  }
  HostSocket::Sent greet_with(const ShmEnd& victim, int ring) const {
    const HostGreeting greeting{socket_.name(), victim.nonce, static_cast<uint32_t>(victim.slot)};
    return socket_.greet(HostSocketAddress(victim.socket), greeting, ring, doorbell_.descriptor());
  }
  void say(RingEntry entry, const Bytes& payload = {}) {
    std::byte* room = writer_->reserve(payload.size());
    ASSERT_NE(room, nullptr);
    std::ranges::copy(payload, room);
    entry.payload_bytes = static_cast<uint32_t>(payload.size());
    writer_->publish(entry);
  }
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
    ASSERT_TRUE(connect(peer_.end()).ok());
    ASSERT_TRUE(peer_.hear());
    ASSERT_EQ(peer_.greet(end()), HostSocket::Sent::kYes);
    ASSERT_TRUE(path_->probe().ok());
    ASSERT_TRUE(look().empty());
    ASSERT_EQ(peer_.take()->kind, Kind::kProbe);
    peer_.own_header().pulls.store(fetches ? 1 : 0);
    ASSERT_TRUE(ring_and_look().empty());
    ASSERT_TRUE(path_->proved());
    path_->start();
  }
  void expose(uint32_t number, size_t size) {
    memory_.assign(size + 2 * kGuard, std::byte{7});
    ASSERT_TRUE(path_->expose(number, {memory_.data() + kGuard, size}).ok());
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
  void fetch_a_part_of(const Bytes& source) {
    expose(1, source.size());
    peer_.say(Entry(Kind::kPull, 1, AddressOf(source.data()), source.size()));
    peer_.ring(end());
    for (FastEvent event; device_->poll(event);) ASSERT_EQ(event.kind, FastEvent::Kind::kProgress);
    EXPECT_EQ(memory_[kGuard], source.front());
    EXPECT_NE(exposed(), source);
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

TEST_F(PathTest, WhatAnHonestPeerSaysArrives) {
  start();
  expose(1, 100000);
  const Bytes source = RandomBytes(100000, 1);
  peer_.say(Entry(Kind::kFrame), Text("hello"));
  peer_.say(Entry(Kind::kPull, 1, AddressOf(source.data()), source.size()));
  const std::vector<Seen> seen = ring_and_look();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].frame, Text("hello"));
  EXPECT_EQ(seen[1].kind, FastEvent::Kind::kLanded);
  EXPECT_EQ(exposed(), source);
  EXPECT_TRUE(guards_are_whole());
}

TEST_F(PathTest, AFrameOfAnImpossibleSizeFailsThePath) {
  for (const size_t size : {size_t{0}, ShmOptions::kMaxFrameBytes + 1, kMaxRingPayload}) {
    EXPECT_EQ(after(1, Entry(Kind::kFrame), Bytes(size)).kind, FastEvent::Kind::kFailed) << size;
    EXPECT_TRUE(path_->failed());
  }
}

TEST_F(PathTest, AnUnknownMessageFailsThePath) {
  for (const uint32_t kind : {0u, 7u, UINT32_MAX}) {
    EXPECT_EQ(after(1, Entry(static_cast<Kind>(kind))).kind, FastEvent::Kind::kFailed) << kind;
  }
}

TEST_F(PathTest, AWriteOfAnotherSizeThanTheSliceFailsThePathAndWritesNothing) {
  const Bytes source = RandomBytes(5000, 1);
  for (const uint64_t length : {uint64_t{0}, uint64_t{4999}, uint64_t{5001}, UINT64_MAX}) {
    const Seen seen = after(5000, Entry(Kind::kPull, 1, AddressOf(source.data()), length));
    EXPECT_EQ(seen.kind, FastEvent::Kind::kFailed) << length;
    EXPECT_EQ(exposed(), Bytes(5000, std::byte{7}));
  }
}

TEST_F(PathTest, AWriteFromWhereThePeerHasNoMemoryFailsThePath) {
  for (const uint64_t address : {uint64_t{0}, UINT64_MAX - 100, uint64_t{1} << 63}) {
    EXPECT_EQ(after(5000, Entry(Kind::kPull, 1, address, 5000)).kind, FastEvent::Kind::kFailed)
        << address;
  }
}

TEST_F(PathTest, APartThatDoesNotFitFailsThePathAndWritesNothing) {
  const std::vector<std::pair<uint64_t, size_t>> parts{
      {0, 5001}, {1, 4999}, {5000, 1}, {UINT64_MAX, 1}, {UINT64_MAX - 10, 5000}};
  for (const auto& [offset, size] : parts) {
    EXPECT_EQ(after(5000, Entry(Kind::kPart, 1, offset), Bytes(size)).kind,
              FastEvent::Kind::kFailed)
        << size << " bytes at " << offset;
    EXPECT_EQ(exposed(), Bytes(5000, std::byte{7}));
  }
}

TEST_F(PathTest, AWriteIntoWhatIsNotExposedIsAStray) {
  const Bytes source(100);
  for (const RingEntry& entry : {Entry(Kind::kPull, 2, AddressOf(source.data()), 100),
                                 Entry(Kind::kPart, 2, 0), Entry(Kind::kPart, UINT32_MAX, 0)}) {
    const Seen seen = after(100, entry, entry.kind == Kind::kPart ? source : Bytes());
    EXPECT_EQ(seen.kind, FastEvent::Kind::kStray);
    EXPECT_EQ(exposed(), Bytes(100, std::byte{7}));
  }
}

TEST_F(PathTest, ASliceThatWasTakenBackIsNotWritten) {
  start();
  expose(1, 100);
  EXPECT_TRUE(path_->take_back(1));
  peer_.say(Entry(Kind::kPart, 1, 0), Bytes(100));
  ASSERT_EQ(ring_and_look().front().kind, FastEvent::Kind::kStray);
  EXPECT_EQ(exposed(), Bytes(100, std::byte{7}));
}

TEST_F(PathTest, WhatIsRevokedWhileItIsFetchedHasNotLanded) {
  start();
  const Bytes source = RandomBytes(kSeveralFetches, 1);
  fetch_a_part_of(source);
  peer_.victims_header().revoked.store(1);
  const std::vector<Seen> seen = look();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].kind, FastEvent::Kind::kFailed);
}

// In the generation after one that ended while it was fetched.
TEST_F(PathTest, AWriteThatWasFetchedHalfMayComeInPartsNextTime) {
  start();
  const Bytes source = RandomBytes(kSeveralFetches, 1);
  fetch_a_part_of(source);
  begin_again();
  constexpr size_t kPart = 32000;
  for (size_t at = 0; at < source.size(); at += kPart) {
    const size_t size = std::min(kPart, source.size() - at);
    RingEntry entry = Entry(Kind::kPart, 1, at);
    entry.last = at + size == source.size() ? 1 : 0;
    peer_.say(entry, {source.begin() + static_cast<std::ptrdiff_t>(at),
                      source.begin() + static_cast<std::ptrdiff_t>(at + size)});
    const std::vector<Seen> seen = ring_and_look();
    ASSERT_EQ(seen.size(), entry.last) << at << " " << (seen.empty() ? "" : seen[0].text);
    ASSERT_TRUE(seen.empty() || seen[0].kind == FastEvent::Kind::kLanded) << seen[0].text;
  }
  EXPECT_TRUE(exposed() == source);
}

TEST_F(PathTest, APeerThatHasTakenWhatWasNeverSentFailsThePath) {
  for (const uint64_t lie : {uint64_t{2}, uint64_t{1} << 40, UINT64_MAX}) {
    path_ = std::unique_ptr<ShmPath>(static_cast<ShmPath*>(device_->make_path().release()));
    ASSERT_TRUE(path_->prepare().ok());
    peer_ = PlayedPeer();
    start();
    Bytes lent(100);
    path_->push_write(1, {1, 100, uint64_t{1} << 32 | 1}, {lent.data(), lent.size()});
    ASSERT_TRUE(path_->pump().ok());
    peer_.own_header().received.store(lie);
    const std::vector<Seen> seen = ring_and_look();
    ASSERT_EQ(seen.size(), 1u) << lie;
    EXPECT_EQ(seen[0].kind, FastEvent::Kind::kFailed);
    EXPECT_TRUE(path_->take_written().empty());
  }
}

// `head` is where a ring's reader says that it is.
TEST_F(PathTest, APeerThatHasFreedWhatWasNeverWrittenFailsThePath) {
  start(/*fetches=*/false);
  peer_.own_header().head.store(uint64_t{1} << 40);
  Bytes lent(kRingBytes);
  path_->push_write(1, {1, lent.size(), uint64_t{1} << 32 | 1}, {lent.data(), lent.size()});
  EXPECT_FALSE(path_->pump().ok());
}

TEST_F(PathTest, APeerThatHasFreedWhatWasNeverWrittenFailsAPathWithFramesAlone) {
  start();
  peer_.own_header().head.store(uint64_t{1} << 40);
  const Bytes frame(ShmOptions::kMaxFrameBytes);
  while (path_->push_frame(frame)) {
  }
  EXPECT_FALSE(path_->pump().ok());
}

TEST_F(PathTest, AnEndThatCannotBeIsRefused) {
  const auto refused = [this](const ShmEnd& end) { return !connect(end).ok(); };
  ShmEnd elsewhere = peer_.end();
  elsewhere.host.boot ^= 1;
  EXPECT_TRUE(refused(elsewhere));
  ShmEnd other_network = peer_.end();
  other_network.host.network ^= 1;
  EXPECT_TRUE(refused(other_network));
  const std::array<std::byte, 5> bytes{};
  EXPECT_FALSE(path_->connect({1, {Address(bytes, "short")}}).ok());
  ShmEnd gone = peer_.end();
  gone.socket[0] ^= 1;
  EXPECT_TRUE(refused(gone)) << "nobody has this socket";
}

// Where a peer says that its bit in its doorbell is, we write.
TEST_F(PathTest, AnEndBehindTheDoorbellIsRefused) {
  for (const uint64_t slot : {uint64_t{DoorbellPage::kSlots}, uint64_t{1} << 31, UINT64_MAX}) {
    ShmEnd beyond = peer_.end();
    beyond.slot = slot;
    EXPECT_FALSE(connect(beyond).ok()) << slot;
  }
}

TEST_F(PathTest, AGreetingThatIsNotAsItShouldBeProvesNothing) {
  ASSERT_TRUE(connect(peer_.end()).ok());
  ASSERT_TRUE(peer_.hear());
  ASSERT_TRUE(path_->probe().ok());
  ShmEnd stranger = end();
  stranger.nonce ^= 1;
  peer_.greet(stranger);
  stranger = end();
  stranger.slot = UINT32_MAX;
  peer_.greet(stranger);
  const Descriptor unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed, kRingSegmentBytes), 0);
  peer_.greet_with(end(), unsealed);
  auto small = SharedSegment::Create(4096);
  peer_.greet_with(end(), small.value().descriptor());
  EXPECT_TRUE(look().empty());
  EXPECT_FALSE(peer_.take().has_value()) << "a probe was sent";
  ASSERT_EQ(peer_.greet(end()), HostSocket::Sent::kYes);
  EXPECT_TRUE(look().empty());
  EXPECT_TRUE(peer_.take().has_value()) << "the right one comes through";
}

// Its place in the doorbell, and in the device's lists, is another path's by then.
TEST_F(PathTest, AGreetingThatWaitsForRoomIsNotTheNextPaths) {
  PlayedPeer busy;
  ShmEnd unknown = busy.end();
  unknown.nonce ^= 1;
  while (peer_.greet(unknown) == HostSocket::Sent::kYes) {
  }
  ASSERT_TRUE(connect(busy.end()).ok());
  path_->destroy();
  ASSERT_TRUE(path_->prepare().ok());
  EXPECT_TRUE(look().empty());
  start();
  EXPECT_TRUE(path_->proved());
  EXPECT_TRUE(device_->arm()) << "something is tried again and again";
}

// It has our ring before we have its own.
TEST_F(PathTest, APeerThatSpeaksBeforeItHasGreetedIsSurvived) {
  const Bytes source(100);
  for (const RingEntry& entry :
       {Entry(Kind::kPull, 1, AddressOf(source.data()), 100),
        Entry(Kind::kPull, 2, AddressOf(source.data()), 100), Entry(Kind::kPart, 1, 0),
        Entry(Kind::kNothing), Entry(Kind::kFrame), Entry(Kind::kProbe)}) {
    SCOPED_TRACE(static_cast<uint32_t>(entry.kind));
    path_->destroy();
    ASSERT_TRUE(path_->prepare().ok());
    peer_ = PlayedPeer();
    ASSERT_TRUE(connect(peer_.end()).ok());
    ASSERT_TRUE(peer_.hear());
    expose(1, 100);
    const bool carries = entry.kind == Kind::kPart || entry.kind == Kind::kFrame;
    peer_.say(entry, carries ? source : Bytes());
    peer_.victims_header().wants_bell.store(1);
    ring_and_look();
    EXPECT_TRUE(guards_are_whole());
  }
}

}  // namespace
}  // namespace rocecoll
