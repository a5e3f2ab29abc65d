// SPDX-License-Identifier: Apache-2.0
// The traffic class of real UDP packets: what ports send, and whether they see Congestion
// Experienced.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/descriptor.h"
#include "datagram/udp_packets.h"

namespace rocecoll {
namespace {

constexpr int kCongestionExperienced = 3;
constexpr int kEcnCapable = 2;

// A plain socket beside the ports, bound to loopback.
struct PlainSocket {
  explicit PlainSocket(const std::string& host)
      : endpoint(ParseUdpHost(host, 0).value()),
        v6(endpoint.family() == AF_INET6),
        fd(::socket(endpoint.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    EXPECT_EQ(::bind(fd, &endpoint.generic, endpoint.size()), 0);
    socklen_t size = sizeof(endpoint);
    EXPECT_EQ(getsockname(fd, &endpoint.generic, &size), 0);
    set(v6 ? IPV6_RECVTCLASS : IP_RECVTOS, 1);
    const timeval limit{120, 0};
    EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
  }
  void set(int name, int value) const {
    EXPECT_EQ(setsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, name, &value, sizeof(value)), 0);
  }
  void send(const UdpPort& to, int traffic_class, const std::vector<std::byte>& bytes) const {
    set(v6 ? IPV6_TCLASS : IP_TOS, traffic_class);
    const UdpEndpoint target = ToUdpEndpoint(to.address()).value();
    EXPECT_EQ(sendto(fd, bytes.data(), bytes.size(), 0, &target.generic, target.size()),
              static_cast<ssize_t>(bytes.size()));
  }
  // The traffic class of the next datagram; -1 if none came, or if it came without one.
  int receive_traffic_class() const {
    std::byte bytes[64];
    alignas(cmsghdr) char control[256];
    iovec slice{bytes, sizeof(bytes)};
    msghdr message{};
    message.msg_iov = &slice;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    if (recvmsg(fd, &message, 0) < 0) return -1;
    const cmsghdr* item = CMSG_FIRSTHDR(&message);
    return item == nullptr ? -1 : *CMSG_DATA(item);
  }

  UdpEndpoint endpoint;
  bool v6;
  Descriptor fd;
};

class UdpMarks : public testing::TestWithParam<const char*> {};

TEST_P(UdpMarks, PacketsHaveTheDscpAndAllowMarks) {
  const PlainSocket receiver(GetParam());
  for (const uint8_t dscp : {0, 26, 63}) {
    for (const bool ecn : {true, false}) {
      auto port = UdpPort::Open({.host = GetParam(), .dscp = dscp, .ecn = ecn}).take();
      const int expected = dscp << 2 | (ecn ? kEcnCapable : 0);
      const PeerHandle to = port->add_peer(ToAddress(receiver.endpoint)).value();
      SendSizes(*port, to, {Pattern(20, 1)});
      EXPECT_EQ(receiver.receive_traffic_class(), expected);
      EXPECT_TRUE(port->send_to(ToAddress(receiver.endpoint), Pattern(20, 1)));
      EXPECT_EQ(receiver.receive_traffic_class(), expected);
    }
  }
}

TEST_P(UdpMarks, CongestionExperiencedIsSeen) {
  for (const bool offload : {true, false}) {
    const PlainSocket sender(GetParam());
    auto port = OpenUdp(GetParam(), offload);
    const std::vector<int> classes{0, 1, 2, 3, 3, 2, 26 << 2 | 3, 63 << 2 | 2, 0};
    for (size_t i = 0; i < classes.size(); ++i) {
      sender.send(*port, classes[i], Pattern(100, static_cast<uint32_t>(i)));
    }
    const auto packets = Collect(*port, classes.size());
    ASSERT_EQ(packets.size(), classes.size());
    for (size_t i = 0; i < classes.size(); ++i) {
      EXPECT_EQ(packets[i].bytes, Pattern(100, static_cast<uint32_t>(i)));
      EXPECT_EQ(packets[i].marked, (classes[i] & 3) == kCongestionExperienced) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, UdpMarks, testing::Values("127.0.0.1", "::1"));

}  // namespace
}  // namespace rocecoll
