// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/udp/udp_port.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "datagram/udp_packets.h"
#include "transport/datagram/datagram_transport.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;

class UdpPortTest : public testing::TestWithParam<std::tuple<const char*, bool, bool>> {};

TEST_P(UdpPortTest, CarriesEverySizeInOrderBitForBit) {
  const auto [host, send_offload, receive_offload] = GetParam();
  auto a = OpenUdp(host, send_offload);
  auto b = OpenUdp(host, receive_offload);
  const PeerHandle to = a->add_peer(b->address()).value();
  const PeerHandle back = b->add_peer(a->address()).value();
  EXPECT_EQ(back.index, b->add_peer(a->address()).value().index);
  EXPECT_EQ(a->peer_limit(to), a->limits().max_datagram_bytes);  // loopback carries 64 KiB
  // These are runs of equal sizes, runs ended by a shorter datagram, growing sizes, and single
  // bytes.
  std::vector<size_t> sizes;
  for (int i = 0; i < 100; ++i) sizes.push_back(1452);
  sizes.push_back(100);
  for (size_t size : {1, 1, 8, 40, 41, 512, 8192, 8192, 8192, 8191, 8192, 7, 1, 2, 3, 4}) {
    sizes.push_back(size);
  }
  for (int i = 0; i < 9; ++i) sizes.push_back(8192);
  std::vector<std::vector<std::byte>> bodies;
  for (size_t i = 0; i < sizes.size(); ++i) {
    bodies.push_back(Pattern(sizes[i], static_cast<uint32_t>(i)));
  }
  SendSizes(*a, to, bodies);
  const std::vector<Packet> got = Collect(*b, bodies.size());
  ASSERT_EQ(got.size(), bodies.size());
  for (size_t i = 0; i < bodies.size(); ++i) {
    EXPECT_EQ(got[i].bytes, bodies[i]) << i;
    EXPECT_EQ(got[i].from, a->address());
  }
}

INSTANTIATE_TEST_SUITE_P(All, UdpPortTest,
                         testing::Combine(testing::Values("127.0.0.1", "::1"), testing::Bool(),
                                          testing::Bool()));

TEST(UdpPort, ATrainOfDatagramsArrivesInOneBuffer) {
  auto a = OpenUdp("127.0.0.1");
  auto b = OpenUdp("127.0.0.1");
  if (!a->limits().segmentation_offload) GTEST_SKIP() << "no UDP_SEGMENT in this kernel";
  const std::vector<std::vector<std::byte>> bodies(7, Pattern(8192, 1));
  SendSizes(*a, a->add_peer(b->address()).value(), bodies);
  ASSERT_TRUE(Readable(*b, 10000));
  std::array<RxDatagram, 16> batch;
  ASSERT_EQ(b->receive(batch), 7u);
  for (size_t i = 1; i < 7; ++i) EXPECT_EQ(batch[i].lease, batch[0].lease);
  b->release({batch.data(), 7});
}

// A datagram that must not share the fate of its neighbours is never a segment of a run.
TEST(UdpPort, ADatagramThatGoesAloneArrivesInABufferOfItsOwn) {
  auto a = OpenUdp("127.0.0.1");
  auto b = OpenUdp("127.0.0.1");
  if (!a->limits().segmentation_offload) GTEST_SKIP() << "no UDP_SEGMENT in this kernel";
  const std::vector<std::byte> body = Pattern(1452, 1);
  std::vector<TxDatagram> sent(6, {a->add_peer(b->address()).value(), body, {}});
  sent[2].alone = sent[5].alone = true;
  ASSERT_EQ(a->send(sent), sent.size());
  std::array<RxDatagram, 16> batch;
  size_t count = 0;
  while (count < sent.size() && Readable(*b, 10000)) {
    count += b->receive(std::span(batch).subspan(count));
  }
  ASSERT_EQ(count, sent.size());
  for (size_t i = 1; i < count; ++i) {
    EXPECT_EQ(batch[i].lease == batch[i - 1].lease, i == 1 || i == 4) << i;
  }
  b->release({batch.data(), count});
}

// The time is that of the kernel's stamp, however late the process looks. There are two exceptions:
// datagrams that come before the kernel has begun to stamp, which it does a moment after the socket
// asks for it, and an interruption between two clocks, which makes the time look later.
TEST(UdpPort, ADatagramSaysWhenItCame) {
  for (const bool coalesced : {true, false}) {
    auto a = OpenUdp("127.0.0.1", coalesced);
    auto b = OpenUdp("127.0.0.1", coalesced);
    const PeerHandle to = a->add_peer(b->address()).value();
    const Instant deadline = b->clock(kNever) + std::chrono::seconds(60);
    bool told = false;
    while (!told && b->clock(kNever) < deadline) {
      const Instant before = b->clock(kNever);
      SendSizes(*a, to, {Pattern(100, 1), Pattern(100, 2)});
      ASSERT_TRUE(Readable(*b, 10000));
      const Instant after = b->clock(kNever);
      while (b->clock(kNever) < after + milliseconds(50)) {
      }
      std::array<RxDatagram, 2> batch;
      ASSERT_EQ(b->receive(batch), 2u);
      told = true;
      for (const RxDatagram& datagram : batch) {
        EXPECT_GE(datagram.received_at, before - milliseconds(25));
        told = told && datagram.received_at <= after + milliseconds(25);
      }
      b->release(batch);
    }
    EXPECT_TRUE(told);
  }
}

TEST(UdpPort, LentDatagramsStayUntilReleasedAndBuffersAreReused) {
  auto a = OpenUdp("127.0.0.1", false);
  auto b = OpenUdp("127.0.0.1", false);
  const PeerHandle to = a->add_peer(b->address()).value();
  const auto first = Pattern(100, 1);
  SendSizes(*a, to, {first});
  ASSERT_TRUE(Readable(*b, 10000));
  std::array<RxDatagram, 1> kept;
  ASSERT_EQ(b->receive(kept), 1u);
  for (uint32_t i = 0; i < 500; ++i) {  // many times the size of the pool
    const auto other = Pattern(100, i + 2);
    SendSizes(*a, to, {other});
    const auto got = Collect(*b, 1);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].bytes, other);
  }
  EXPECT_TRUE(std::equal(first.begin(), first.end(), kept[0].bytes.begin(), kept[0].bytes.end()));
  b->release(kept);
}

TEST(UdpPort, ReceivesNothingWhileEveryBufferIsLentAndGoesOnAfterwards) {
  auto a = OpenUdp("127.0.0.1", false);
  auto b = OpenUdp("127.0.0.1", false);
  const PeerHandle to = a->add_peer(b->address()).value();
  SendSizes(*a, to, std::vector<std::vector<std::byte>>(200, Pattern(64, 1)));
  std::vector<RxDatagram> lent(200);
  size_t count = 0;
  while (const size_t more = b->receive(std::span(lent).subspan(count))) count += more;
  EXPECT_GT(count, 0u);
  EXPECT_LT(count, 200u);
  b->release({lent.data(), count});
  EXPECT_EQ(Collect(*b, 200 - count).size(), 200 - count);
}

TEST(UdpPort, AClosedPeerIsReportedAndLosesNobodyElsesDatagrams) {
  for (const char* host : {"127.0.0.1", "::1"}) {
    auto a = OpenUdp(host);
    auto alive = OpenUdp(host);
    auto dead = OpenUdp(host);
    const PeerHandle to_alive = a->add_peer(alive->address()).value();
    const PeerHandle to_dead = a->add_peer(dead->address()).value();
    dead.reset();
    const auto body = Pattern(200, 3);
    std::vector<TxDatagram> batch;
    for (int i = 0; i < 40; ++i) batch.push_back({i % 2 ? to_alive : to_dead, body, {}});
    ASSERT_EQ(a->send(batch), batch.size());
    EXPECT_EQ(Collect(*alive, 20).size(), 20u);
    // The last report may still wait on the error queue, which makes the handle readable.
    std::array<RxDatagram, 4> none;
    EXPECT_EQ(a->receive(none), 0u);
    EXPECT_FALSE(Readable(*a, 0));
    UnreachableHint hint;
    int hints = 0;
    for (; a->poll_unreachable(hint); ++hints) {
      EXPECT_EQ(hint.peer.index, to_dead.index);
      EXPECT_EQ(hint.obstacle, Obstacle::kPortRefused);
    }
    EXPECT_GT(hints, 0);
  }
}

TEST(UdpPort, SendsOneByOneWhenTheKernelRefusesToSegment) {
  auto a = OpenUdp("127.0.0.1");
  auto b = OpenUdp("127.0.0.1");
  if (!a->limits().segmentation_offload) GTEST_SKIP() << "no UDP_SEGMENT in this kernel";
  const int one = 1;  // Linux refuses UDP_SEGMENT on sockets without checksums
  ASSERT_EQ(setsockopt(a->wait_handle().descriptors().front(), SOL_SOCKET, SO_NO_CHECK, &one,
                       sizeof(one)),
            0);
  const std::vector<std::vector<std::byte>> bodies(50, Pattern(1452, 5));
  SendSizes(*a, a->add_peer(b->address()).value(), bodies);
  const auto got = Collect(*b, bodies.size());
  ASSERT_EQ(got.size(), bodies.size());
  for (const Packet& packet : got) EXPECT_EQ(packet.bytes, bodies[0]);
}

TEST(UdpPort, StaysWithinThePortRangeAndSaysWhenItIsFull) {
  auto probe = OpenUdp("127.0.0.1");
  const uint16_t port = ToUdpEndpoint(probe->address()).value().port();
  probe.reset();
  const UdpPortOptions one{.port_low = port, .port_high = port};
  auto first = UdpPort::Open(one);
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(first.value()->address().text(), "127.0.0.1:" + std::to_string(port));
  auto second = UdpPort::Open(one);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kNetwork);
  const std::string number = std::to_string(port);
  const std::string range = "no UDP port of ROCECOLL_PORT_RANGE=" + number + "-" + number +
                            " is free: each process takes one";
  const std::string taken =
      ", and another process has the only one (ss -ulnp shows whose they are); give the range "
      "more ports, or others";
  EXPECT_EQ(second.status().message(), range + taken);
  const auto with_ranks = [&](uint32_t ranks) {
    UdpPortOptions options = one;
    options.local_ranks = ranks;
    return UdpPort::Open(options).status().message();
  };
  EXPECT_EQ(with_ranks(1), range + ", this host has 1 rank" + taken);
  EXPECT_EQ(with_ranks(2),
            range + ", this host has 2 ranks, the range only 1; give it 2 ports or more");
}

TEST(UdpPort, SaysWhenOthersHaveAllPortsOfARange) {
  std::unique_ptr<UdpPort> low;
  std::unique_ptr<UdpPort> high;
  uint16_t port = 0;
  for (int attempt = 0; attempt < 100 && high == nullptr; ++attempt) {
    low = OpenUdp("127.0.0.1");
    port = ToUdpEndpoint(low->address()).value().port();
    const auto next = static_cast<uint16_t>(port + 1);
    auto neighbour = UdpPort::Open({.port_low = next, .port_high = next});
    if (neighbour.ok()) high = neighbour.take();
  }
  ASSERT_NE(high, nullptr);
  const auto end = static_cast<uint16_t>(port + 1);
  EXPECT_EQ(
      UdpPort::Open({.port_low = port, .port_high = end, .local_ranks = 2}).status().message(),
      "no UDP port of ROCECOLL_PORT_RANGE=" + std::to_string(port) + "-" + std::to_string(end) +
          " is free: each process takes one, this host has 2 ranks, and other processes "
          "have all 2 (ss -ulnp shows whose they are); give the range more ports, or others");
}

TEST(UdpPort, RefusesBadOptionsAndForeignAddresses) {
  EXPECT_EQ(UdpPort::Open({.host = "localhost"}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(UdpPort::Open({.port_low = 9, .port_high = 8}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(UdpPort::Open({.max_datagram_bytes = 10}).status().code(),
            StatusCode::kInvalidArgument);
  auto a = OpenUdp("127.0.0.1");
  EXPECT_EQ(a->add_peer(OpenUdp("::1")->address()).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(a->add_peer(Address()).status().code(), StatusCode::kInvalidArgument);
}

// Other hosts are told 192.0.2.7, but ranks of this host reach it at its loopback address.
TEST(UdpPort, RanksOfOneHostSendLargeFramesWholeWhateverOthersAreTold) {
  auto port = OpenUdp("192.0.2.7");
  const size_t least = port->limits().guaranteed_datagram_bytes;
  const Address here = ParseUdpAddress("127.0.0.1:4000").value();
  const Address there = ParseUdpAddress("192.0.2.8:4000").value();
  EXPECT_EQ(least, port->limits().min_datagram_bytes);
  EXPECT_EQ(port->guaranteed_bytes(here), port->limits().max_datagram_bytes);
  EXPECT_EQ(port->guaranteed_bytes(there), least);
  const DatagramTransport transport(std::move(port), {});
  const auto pieces = [&](const std::vector<Address>& peers) {
    return transport.limits_towards(peers).eager_pieces;
  };
  const auto lanes = [&](const std::vector<Address>& peers) {
    return transport.limits_towards(peers).overlapping_lanes;
  };
  EXPECT_EQ(pieces({here, here}), 2u);
  EXPECT_EQ(lanes({here, here}), 3u);
  for (const auto& peers : std::vector<std::vector<Address>>{{here, there}, {there, here}, {}}) {
    EXPECT_EQ(pieces(peers), 1u) << "what comes in pieces costs more than asking";
    EXPECT_EQ(lanes(peers), UINT32_MAX) << "a word takes long";
  }
}

TEST(UdpPort, TheWaitHandleTellsOfArrivalsOnly) {
  auto a = OpenUdp("127.0.0.1");
  auto b = OpenUdp("127.0.0.1");
  EXPECT_FALSE(Readable(*b, 0));
  EXPECT_EQ(b->next_deadline(), kNever);
  SendSizes(*a, a->add_peer(b->address()).value(), {Pattern(8, 1)});
  EXPECT_TRUE(Readable(*b, 10000));
  EXPECT_EQ(Collect(*b, 1).size(), 1u);
  EXPECT_FALSE(Readable(*b, 0));
}

// Sends this many datagrams of that size, and checks that all of them arrive.
void ExpectRoomFor(UdpPort& from, UdpPort& to, size_t count, size_t size) {
  const auto body = Pattern(size, 1);
  const std::vector<TxDatagram> batch(count, {from.add_peer(to.address()).value(), body, {}});
  std::span<const TxDatagram> rest(batch);
  while (!rest.empty()) rest = rest.subspan(from.send(rest));
  ASSERT_EQ(Collect(to, count).size(), count) << size;
}

class UdpPortRoom : public testing::TestWithParam<std::tuple<size_t, bool>> {};

// Checked both before and after packets were weighed, by what the kernel charges for them on this
// host.
TEST_P(UdpPortRoom, IsAtLeastWhatLimitsSay) {
  const auto [buffer_bytes, offload] = GetParam();
  const UdpPortOptions options{.socket_buffer_bytes = buffer_bytes,
                               .segmentation_offload = offload};
  auto a = UdpPort::Open(options).take();
  auto b = UdpPort::Open(options).take();
  const size_t assumed = b->limits().receive_buffer_bytes;
  for (const size_t size : {size_t{1372}, size_t{8192}}) {
    ExpectRoomFor(*a, *b, b->limits().receive_buffer_bytes / size, size);
    const size_t some = 1 + PacketMemory::kLeastPayload / size;  // fetched by one system call
    const Instant deadline = b->clock(kNever) + std::chrono::seconds(60);
    constexpr uint32_t kFetches = PacketMemory::kSamples * (PacketMemory::kFetchesPerSample + 1);
    for (uint32_t i = 0; i < kFetches || b->limits().receive_buffer_bytes == assumed; ++i) {
      ASSERT_LT(b->clock(kNever), deadline) << "packets of " << size << " bytes are not weighed";
      ExpectRoomFor(*a, *b, some, size);
    }
    const size_t room = b->limits().receive_buffer_bytes;
    EXPECT_GT(room, assumed) << size;
    ExpectRoomFor(*a, *b, room / size, size);
  }
}

// Sent one by one, thousands would fill the queue between the ends of loopback
// (net.core.netdev_max_backlog).
INSTANTIATE_TEST_SUITE_P(All, UdpPortRoom,
                         testing::Values(std::tuple(212'992, false), std::tuple(212'992, true),
                                         std::tuple(4 << 20, true)));

}  // namespace
}  // namespace rocecoll
