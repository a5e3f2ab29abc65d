// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/udp/udp_address.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace rocecoll {
namespace {

TEST(UdpAddress, TextRoundTripsThroughBytes) {
  for (const std::string text :
       {"192.0.2.1:4000", "127.0.0.1:65535", "[2001:db8::1]:4000", "[::1]:1"}) {
    const Result<Address> address = ParseUdpAddress(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(address.value().text(), text);
    // Only the bytes travel; the text is made from them again.
    const Address carried(address.value().bytes(), "");
    const Result<UdpEndpoint> endpoint = ToUdpEndpoint(carried);
    ASSERT_TRUE(endpoint.ok());
    EXPECT_EQ(ToAddress(endpoint.value()).text(), text);
    EXPECT_EQ(ToAddress(endpoint.value()), address.value());
  }
}

TEST(UdpAddress, RefusesWhatIsNotAnAddressAndNamesIt) {
  for (const std::string text :
       {"", ":", "192.0.2.1", "192.0.2.1:", "192.0.2.1:0", "192.0.2.1:65536", "192.0.2.1:40x",
        "192.0.2:4000", "host:4000", "2001:db8::1:4000", "[192.0.2.1]:4000", "[]:4000", "[::1]4000",
        "192.0.2.1:-1"}) {
    const Result<Address> address = ParseUdpAddress(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_EQ(address.status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_NE(ParseUdpAddress("host:4000").status().message().find("host"), std::string::npos);
}

TEST(UdpAddress, RefusesLinkLocalAddressesAndSaysWhy) {
  for (const std::string host : {"fe80::1", "fe80::1%eth0", "febf::1"}) {
    const Result<UdpEndpoint> endpoint = ParseUdpHost(host, 1);
    ASSERT_FALSE(endpoint.ok()) << host;
    EXPECT_NE(endpoint.status().message().find("link-local"), std::string::npos) << host;
    EXPECT_NE(endpoint.status().message().find(host), std::string::npos) << host;
  }
  EXPECT_TRUE(ParseUdpHost("fec0::1", 1).ok());
}

TEST(UdpAddress, ForeignBytesAreNotUdp) {
  const std::array<std::byte, 7> wrong_family{std::byte{9}};
  EXPECT_FALSE(ToUdpEndpoint(Address(wrong_family, "x")).ok());
  const std::array<std::byte, 6> short_v4{std::byte{4}};
  EXPECT_FALSE(ToUdpEndpoint(Address(short_v4, "x")).ok());
  EXPECT_FALSE(ToUdpEndpoint(Address()).ok());
}

TEST(UdpAddress, EndpointsDifferByHostPortAndFamily) {
  const UdpEndpoint a = ParseUdpHost("192.0.2.1", 10).value();
  EXPECT_EQ(a, ParseUdpHost("192.0.2.1", 10).value());
  EXPECT_EQ(UdpEndpointHash()(a), UdpEndpointHash()(ParseUdpHost("192.0.2.1", 10).value()));
  EXPECT_FALSE(a == ParseUdpHost("192.0.2.1", 11).value());
  EXPECT_FALSE(a == ParseUdpHost("192.0.2.2", 10).value());
  EXPECT_FALSE(a == ParseUdpHost("::1", 10).value());
}

}  // namespace
}  // namespace rocecoll
