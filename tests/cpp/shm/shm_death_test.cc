// SPDX-License-Identifier: Apache-2.0
// Two processes that share memory, one of which is killed at different points.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "conformance/exchange.h"
#include "shm/holdings.h"
#include "shm/shm_world.h"

namespace rocecoll {
namespace {

constexpr size_t kLarge = 48 << 20;

// So long that only the system tells of the death of a process that both ends' paths know.
ConnectionOptions WithoutHeartbeats() {
  ConnectionOptions control;
  control.heartbeat_interval = control.peer_timeout = std::chrono::hours(1);
  return control;
}

// One rank of two; the other one is in another process.
class OneRank : public RealTimeWorld {
 public:
  OneRank(uint32_t own, const ShmOptions& options, const ConnectionOptions& control = {})
      : own_(own) {
    nodes.resize(own);
    addresses.resize(own);
    auto port = UdpPort::Open({.host = "127.0.0.1"});
    EXPECT_TRUE(port.ok()) << port.status().message();
    auto both =
        MakeShmTransport(std::make_unique<DatagramTransport>(port.take(), control), options);
    transport_ = both.get();
    add(std::move(both));
    addresses.resize(2);
  }
  Address address() const { return addresses[own_]; }
  void open_to(const Address& peer) {
    addresses[1 - own_] = peer;
    link = open(own_, 1 - own_);
  }
  bool carries(const LinkId& /*link*/) override { return transport_->links_on_path() > 0; }
  bool carried() {
    return run([this] { return carries({}); });
  }
  uint64_t bytes_received() const { return transport_->stats().shared_bytes_received; }
  const LinkRecord& seen() { return record(link); }
  bool until_down() {
    return run([this] { return is_down(link); });
  }
  // Asks the peer to write into this memory, which it learns from a frame.
  void ask_for(Bytes& memory, uint32_t token) {
    const RemoteSlice slice = link->expose({memory.data(), memory.size()}, token);
    Bytes frame(RemoteSlice::kWireBytes);
    ByteWriter writer(frame);
    slice.store(writer);
    ASSERT_TRUE(link->send_frame(frame));
  }
  // The slice of the `index`-th frame, once there is one.
  std::optional<RemoteSlice> asked(size_t index) {
    if (seen().frames.size() <= index) return std::nullopt;
    ByteReader reader(seen().frames[index]);
    return RemoteSlice::load(reader);
  }

  Link* link = nullptr;

 private:
  const uint32_t own_;
  SwitchingTransport* transport_ = nullptr;
};

// Between the processes, besides the transports.
class Words {
 public:
  explicit Words(int fd) : fd_(fd) {}
  ~Words() { ::close(fd_); }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  void say(std::span<const std::byte> word) const {
    EXPECT_EQ(::send(fd_, word.data(), word.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(word.size()));
  }
  // Empty: the other process is gone, or there is nothing now where `flags` say not to wait.
  Bytes hear(int flags = 0) const {
    Bytes word(256);
    word.resize(static_cast<size_t>(std::max<ssize_t>(0, ::recv(fd_, word.data(), 256, flags))));
    return word;
  }

 private:
  const int fd_;
};

using Body = std::function<void(OneRank&, const Words&)>;

// Rank 1, in a process of its own.
class OtherProcess {
 public:
  OtherProcess(const ShmOptions& options, const Body& body) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    std::fflush(stdout);
    id_ = ::fork();
    if (id_ == 0) {
      ::close(ends[0]);
      live(options, body, Words(ends[1]));
    }
    ::close(ends[1]);
    words.emplace(ends[0]);
  }
  ~OtherProcess() { kill(); }

  // Returns what ended it.
  int kill() {
    if (id_ == 0) return 0;
    ::kill(id_, SIGKILL);
    int status = 0;
    EXPECT_GT(::waitpid(std::exchange(id_, 0), &status, 0), 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
  Address address() const { return {words->hear(), "the other process"}; }

  std::optional<Words> words;

 private:
  [[noreturn]] static void live(const ShmOptions& options, const Body& body, const Words& words) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    OneRank rank(1, options);
    words.say(rank.address().bytes());
    rank.addresses[0] = Address(words.hear(), "the tested process");
    body(rank, words);
    words.hear();
    _exit(0);
  }

  pid_t id_ = 0;
};

class ShmDeath : public testing::TestWithParam<bool> {
 protected:
  // Rank 0 is this process; rank 1 does what `body` says, then waits for its end.
  void begin(const ConnectionOptions& control, const Body& body) {
    ShmOptions options;
    options.fetch = GetParam();
    rank_.reset();
    other_.emplace(options, body);
    rank_.emplace(0, options, control);
    const Address peer = other_->address();
    other_->words->say(rank_->address().bytes());
    rank_->open_to(peer);
  }
  // Of the other process, which has to go on: its transport may have more to say than it knows.
  static void until_told(OneRank& rank, const Words& words) {
    rank.run([&words] { return !words.hear(MSG_DONTWAIT).empty(); });
  }
  void expect_carried() {
    ASSERT_TRUE(rank_->run([this] {
      return rank_->carries({}) && other_->words->hear(MSG_DONTWAIT) == Text("carried");
    }));
  }
  void expect_lost(StatusCode code = StatusCode::kPeerLost) {
    ASSERT_TRUE(rank_->until_down());
    EXPECT_EQ(rank_->link->status().code(), code) << rank_->link->status().message();
    rank_->link->close(Status(StatusCode::kAborted, "rank 1 is lost"));
    EXPECT_TRUE(rank_->run([this] { return !rank_->lingering(); }));
  }

  std::optional<OtherProcess> other_;
  std::optional<OneRank> rank_;
};
INSTANTIATE_TEST_SUITE_P(, ShmDeath, testing::Bool(),
                         [](const auto& info) { return info.param ? "fetching" : "in_parts"; });

TEST_P(ShmDeath, BeforeItAnswers) {
  begin({}, [](OneRank&, const Words&) {});
  rank_->run_for(std::chrono::milliseconds(5));
  EXPECT_EQ(other_->kill(), SIGKILL);
  expect_lost(StatusCode::kNoContact);
}

TEST_P(ShmDeath, WhileItsLinkIsQuiet) {
  begin(WithoutHeartbeats(), [](OneRank& rank, const Words& words) {
    rank.open_to(rank.addresses[0]);
    rank.carried();
    words.say(Text("carried"));
    until_told(rank, words);
  });
  expect_carried();
  EXPECT_EQ(other_->kill(), SIGKILL);
  expect_lost();
}

TEST_P(ShmDeath, WhileItsLargeWriteIsTaken) {
  begin(WithoutHeartbeats(), [](OneRank& rank, const Words&) {
    rank.open_to(rank.addresses[0]);
    const Bytes source = RandomBytes(kLarge, 1);
    rank.run([&] { return rank.asked(0).has_value(); });
    rank.link->write(*rank.asked(0), {const_cast<std::byte*>(source.data()), kLarge}, 1);
    rank.run([] { return false; });
  });
  Bytes target(kLarge);
  ASSERT_TRUE(rank_->carried());
  rank_->ask_for(target, 1);
  ASSERT_TRUE(rank_->run([this] { return rank_->bytes_received() >= 1 << 20; }));
  EXPECT_EQ(other_->kill(), SIGKILL);
  expect_lost();
  EXPECT_TRUE(rank_->seen().landed.empty() || target == RandomBytes(kLarge, 1));
}

TEST_P(ShmDeath, WhileItTakesALargeWrite) {
  begin(WithoutHeartbeats(), [](OneRank& rank, const Words&) {
    rank.open_to(rank.addresses[0]);
    Bytes target(kLarge);
    rank.carried();
    rank.ask_for(target, 1);
    rank.run([&rank] { return rank.bytes_received() >= 1 << 20; });
    ::kill(::getpid(), SIGKILL);
  });
  Bytes source = RandomBytes(kLarge, 1);
  ASSERT_TRUE(rank_->run([this] { return rank_->asked(0).has_value(); }));
  ASSERT_TRUE(rank_->link->write(*rank_->asked(0), {source.data(), kLarge}, 1));
  expect_lost();
  EXPECT_TRUE(rank_->seen().written.empty());
}

// What it had sent is there, though nobody has looked since.
TEST_P(ShmDeath, WithItsPeersRingFull) {
  begin(WithoutHeartbeats(), [](OneRank& rank, const Words& words) {
    rank.open_to(rank.addresses[0]);
    rank.carried();
    words.say(Text("carried"));
    until_told(rank, words);
    uint32_t count = 0;
    while (rank.link->send_frame(RandomBytes(500 + count, count))) ++count;
    words.say(std::as_bytes(std::span(&count, 1)));
  });
  expect_carried();
  other_->words->say(Text("now"));
  const Bytes said = other_->words->hear();
  ASSERT_EQ(said.size(), sizeof(uint32_t));
  const auto count = ByteReader(said).Read<uint32_t>();
  EXPECT_GT(count, 50u);
  EXPECT_EQ(other_->kill(), SIGKILL);
  expect_lost();
  ASSERT_EQ(rank_->seen().frames.size(), count);
  for (uint32_t i = 0; i < count; ++i) EXPECT_EQ(rank_->seen().frames[i], RandomBytes(500 + i, i));
}

// It sends frames, and answers each that it gets with a write.
void StreamForEver(OneRank& rank, const Words&) {
  rank.open_to(rank.addresses[0]);
  std::vector<Bytes> sources;
  uint32_t sent = 0;
  rank.run([&] {
    while (rank.link->send_frame(RandomBytes(1 + sent % 3000, sent))) ++sent;
    while (const auto slice = rank.asked(sources.size())) {
      Bytes& source = sources.emplace_back(RandomBytes(slice->length, sources.size()));
      rank.link->write(*slice, {source.data(), source.size()}, 1);
    }
    return false;
  });
}

TEST_P(ShmDeath, AtAnyMomentWhatArrivedIsRight) {
  constexpr uint32_t kWrites = 8;
  for (const size_t frames : {1, 2, 3, 10, 31, 32, 33, 100, 300, 1000, 3000}) {
    begin({}, StreamForEver);
    std::vector<Bytes> targets;
    for (uint32_t i = 0; i < kWrites; ++i) {
      rank_->ask_for(targets.emplace_back(Bytes((size_t{3} << 20) + i)), i);
    }
    ASSERT_TRUE(rank_->run([&] { return rank_->seen().frames.size() >= frames; }));
    EXPECT_EQ(other_->kill(), SIGKILL);
    expect_lost();
    const LinkRecord& seen = rank_->seen();
    for (uint32_t i = 0; i < seen.frames.size(); ++i) {
      ASSERT_EQ(seen.frames[i], RandomBytes(1 + i % 3000, i)) << i;
    }
    for (const uint32_t token : seen.landed) {
      EXPECT_TRUE(targets[token] == RandomBytes(targets[token].size(), token)) << token;
    }
  }
}

// Leaves in good order when it is told to.
void StayUntilTold(OneRank& rank, const Words& words) {
  rank.open_to(rank.addresses[0]);
  rank.run([&words] { return !words.hear(MSG_DONTWAIT).empty(); });
  rank.link->close(Status());
  rank.run([&rank] { return !rank.lingering(); });
}

// How the `round`-th of many processes and its link come to their end.
void Part(int round, OneRank& rank, OtherProcess& other) {
  const Status enough(StatusCode::kAborted, "enough");
  const bool in_the_beginning = round % 4 == 3;
  if (in_the_beginning) {
    rank.run_for(std::chrono::microseconds(round * 50));
  } else {
    ASSERT_TRUE(rank.carried());
  }
  if (round % 4 == 0) {
    rank.link->close(enough);
    return;
  }
  if (round % 4 == 1) {
    other.words->say(Text("leave"));
  } else {
    other.kill();
  }
  ASSERT_TRUE(rank.until_down());
  rank.link->close(enough);
}

TEST(ShmProcesses, ManyThatComeAndGoLeaveNothingBehind) {
  OneRank rank(0, {});
  const Holdings before = Holdings::Now();
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    {
      OtherProcess other({}, StayUntilTold);
      const Address peer = other.address();
      other.words->say(rank.address().bytes());
      rank.open_to(peer);
      Part(round, rank, other);
    }
    ASSERT_TRUE(rank.run([&] { return !rank.lingering() && Holdings::Now() == before; },
                         std::chrono::seconds(30)))
        << Holdings::Now().text();
  }
}

}  // namespace
}  // namespace rocecoll
