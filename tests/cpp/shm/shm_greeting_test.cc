// SPDX-License-Identifier: Apache-2.0
// How the ends of a path find each other, and what becomes of it where they do not.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/in_child.h"
#include "base/limited_files.h"
#include "shm/forbid.h"
#include "shm/played_peer.h"

namespace rocecoll {
namespace {

class ShmGreeting : public PathTest {};

TEST_F(ShmGreeting, AnEndThatCannotBeIsRefused) {
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
TEST_F(ShmGreeting, AnEndBehindTheDoorbellIsRefused) {
  for (const uint64_t slot : {uint64_t{DoorbellPage::kSlots}, uint64_t{1} << 31, UINT64_MAX}) {
    ShmEnd beyond = peer_.end();
    beyond.slot = slot;
    EXPECT_FALSE(connect(beyond).ok()) << slot;
  }
}

TEST_F(ShmGreeting, AGreetingFromNobodyKnownProvesNothing) {
  ASSERT_TRUE(connect(peer_.end()).ok());
  ASSERT_TRUE(peer_.hear());
  ASSERT_TRUE(path_->probe().ok());
  ShmEnd stranger = end();
  stranger.nonce ^= 1;
  peer_.greet(stranger);
  stranger = end();
  stranger.slot = UINT32_MAX;
  peer_.greet(stranger);
  EXPECT_TRUE(look().empty());
  EXPECT_FALSE(peer_.take().has_value()) << "a probe was sent";
  ASSERT_TRUE(peer_.greet(end()));
  EXPECT_TRUE(look().empty());
  EXPECT_TRUE(peer_.take().has_value()) << "the right one comes through";
}

// By its nonce it is the peer's, so nothing better will come: the pair need not wait for that.
TEST_F(ShmGreeting, AGreetingThatIsNotAsItShouldBeEndsThePathAtOnceAndSaysWhy) {
  const Descriptor unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed, kRingSegmentBytes), 0);
  auto small = SharedSegment::Create(4096);
  auto no_ring = SharedSegment::Create(kRingSegmentBytes);
  const std::string not_right = "the peer's shared memory is not as it should be";
  for (const auto& [descriptor, why] :
       {std::pair<int, std::string>{unsealed, not_right},
        {small.value().descriptor(), not_right},
        {no_ring.value().descriptor(), "the peer's shared memory is no ring"}}) {
    path_->destroy();
    ASSERT_TRUE(path_->prepare().ok());
    peer_ = PlayedPeer();
    ASSERT_TRUE(connect(peer_.end()).ok());
    peer_.greet_with(end(), descriptor);
    const std::vector<Seen> seen = look();
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].kind, FastEvent::Kind::kFailed);
    EXPECT_EQ(seen[0].text, why);
    EXPECT_TRUE(device_->arm()) << "something is waited for";
  }
}

// Users are told apart by what the kernel says of the sender, and this thread becomes another one.
TEST_F(ShmGreeting, AnotherUsersGreetingEndsThePathAtOnceAndSaysWhy) {
  if (::geteuid() != 0) GTEST_SKIP() << "becoming another user takes root";
  ASSERT_TRUE(connect(peer_.end()).ok());
  bool sent = false;
  std::thread([&] {
    // The system call, unlike the library's function, changes this thread alone.
    ASSERT_EQ(::syscall(SYS_setresuid, 65534, 65534, 65534), 0);
    sent = peer_.greet(end());
  }).join();
  ASSERT_TRUE(sent);
  const std::vector<Seen> seen = look();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].kind, FastEvent::Kind::kFailed);
  EXPECT_EQ(seen[0].text, "one of both runs as another user");
}

// With room for one of both, and for none.
TEST(HostSocket, AGreetingThatThisProcessHasNoRoomForSaysSo) {
  for (const size_t room : {0, 1}) {
    EXPECT_TRUE(InChild([room] {
      const auto from = HostSocket::Open();
      const auto to = HostSocket::Open();
      const auto ring = SharedSegment::Create(4096);
      const int file = ring.value().descriptor();
      EXPECT_TRUE(from.value().greet(HostSocketAddress(to.value().name()), {}, file, file).value());
      AllowMoreFiles(room);
      const auto received = to.value().receive();
      const std::string obstacle(received.value().obstacle);
      EXPECT_NE(obstacle.find("too many open files (raise `ulimit -n`)"), obstacle.npos)
          << obstacle;
      return received->greeting.has_value() && !received->ring.valid();
    })) << room;
  }
}

// Its place in the doorbell, and in the device's lists, is another path's by then.
TEST_F(ShmGreeting, AGreetingThatWaitsForRoomIsNotTheNextPaths) {
  PlayedPeer busy;
  ShmEnd unknown = busy.end();
  unknown.nonce ^= 1;
  while (peer_.greet(unknown)) {
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
TEST_F(ShmGreeting, APeerThatSpeaksBeforeItHasGreetedIsSurvived) {
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

// Does what a thread can do that the system answers its greetings so.
void WithGreetingsRefused(int error, const std::function<void()>& body) {
  std::thread([&] {
    RefuseGreetings(error);
    body();
  }).join();
}

TEST_F(ShmGreeting, AGreetingThatHasNoRoomNowGoesOutLater) {
  for (const int error : {EAGAIN, ENOBUFS, ENOMEM, ETOOMANYREFS, EINTR}) {
    SCOPED_TRACE(std::strerror(error));
    path_->destroy();
    ASSERT_TRUE(path_->prepare().ok());
    Status status;
    WithGreetingsRefused(error, [&] { status = connect(peer_.end()); });
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_FALSE(device_->arm()) << "nobody would try again";
    EXPECT_TRUE(look().empty());
    EXPECT_TRUE(peer_.hear());
  }
}

TEST_F(ShmGreeting, AGreetingThatTheSystemRefusesEndsThePathAndSaysWhy) {
  for (const int error : {EPERM, EACCES, EOPNOTSUPP, EINVAL}) {
    const std::string why = std::string("(sendmsg): ") + std::strerror(error);
    path_->destroy();
    ASSERT_TRUE(path_->prepare().ok());
    Status status;
    WithGreetingsRefused(error, [&] { status = connect(peer_.end()); });
    EXPECT_FALSE(status.ok()) << why;
    EXPECT_TRUE(status.message().ends_with(why)) << status.message();
  }
}

TEST_F(ShmGreeting, AGreetingThatIsRefusedWhenItIsTriedAgainEndsThePathAndSaysWhy) {
  WithGreetingsRefused(EAGAIN, [&] { ASSERT_TRUE(connect(peer_.end()).ok()); });
  std::vector<Seen> seen;
  WithGreetingsRefused(EPERM, [&] { seen = look(); });
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].kind, FastEvent::Kind::kFailed);
  EXPECT_TRUE(seen[0].text.ends_with("(sendmsg): Operation not permitted")) << seen[0].text;
  EXPECT_TRUE(path_->failed());
  EXPECT_TRUE(device_->arm()) << "something is tried again and again";
}

TEST_F(ShmGreeting, APeerThatGoesBeforeThereIsRoomEndsThePath) {
  WithGreetingsRefused(EAGAIN, [&] { ASSERT_TRUE(connect(peer_.end()).ok()); });
  peer_ = PlayedPeer();
  const std::vector<Seen> seen = look();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].kind, FastEvent::Kind::kFailed);
  EXPECT_EQ(seen[0].text, "its Unix socket does not answer");
}

}  // namespace
}  // namespace rocecoll
