// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/runtime.h"

namespace rocecoll {
namespace {

TEST(OptionTable, SetsFieldsFromText) {
  RuntimeOptions options;
  EXPECT_TRUE(SetRuntimeOption(options, "udp.max_datagram_bytes", "1400").ok());
  EXPECT_TRUE(SetRuntimeOption(options, "udp.segmentation_offload", "off").ok());
  EXPECT_TRUE(SetRuntimeOption(options, "udp.dscp", "63").ok());
  EXPECT_TRUE(SetRuntimeOption(options, "udp.ecn", "0").ok());
  EXPECT_TRUE(SetRuntimeOption(options, "fault.loss", "0.05").ok());
  EXPECT_TRUE(SetRuntimeOption(options, "progress.spin_us", "1.5").ok());
  EXPECT_TRUE(SetRuntimeOption(options, "host", "::1").ok());
  EXPECT_EQ(options.max_datagram_bytes, 1400u);
  EXPECT_FALSE(options.segmentation_offload);
  EXPECT_EQ(options.dscp, 63);
  EXPECT_FALSE(options.ecn);
  EXPECT_EQ(options.fault.loss, 0.05);
  EXPECT_EQ(options.progress.spin_time, Duration(1500));
  EXPECT_EQ(options.host, "::1");
}

TEST(OptionTable, RefusesByNameValueAndRange) {
  RuntimeOptions options;
  const char* const wrong[][2] = {{"port_low", "65536"},      {"port_low", "-1"},
                                  {"port_low", "12 "},        {"fault.loss", "1.01"},
                                  {"fault.loss", "nan"},      {"fault.loss", ""},
                                  {"progress.spin_us", "-1"}, {"udp.segmentation_offload", "maybe"},
                                  {"engine.lane_bytes", "0"}, {"udp.dscp", "64"}};
  for (const auto& [name, value] : wrong) {
    const Status status = SetRuntimeOption(options, name, value);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << name << "=" << value;
    EXPECT_NE(status.message().find(name), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("it takes "), std::string::npos) << status.message();
  }
  EXPECT_NE(SetRuntimeOption(options, "nonsense", "1").message().find("fault.loss"),
            std::string::npos);
}

TEST(OptionTable, NamesAreUniqueAndKnown) {
  std::vector<std::string> names = RuntimeOptionNames();
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  RuntimeOptions options;
  for (const std::string& name : names) {
    const Status status = SetRuntimeOption(options, name, "\x01");
    if (!status.ok()) {
      EXPECT_EQ(status.message().find("there is no option"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace rocecoll
