// SPDX-License-Identifier: Apache-2.0
#include "runtime/network_plugin.h"

#include <gtest/gtest.h>

#include <fstream>

namespace rocecoll {
namespace {

std::string Fake(const std::string& name) { return FAKE_PLUGINS "fake_" + name + ".so"; }

void ExpectRefusal(const std::string& path, const std::vector<std::string>& words) {
  const auto loaded = LoadNetworkPlugin(path);
  ASSERT_FALSE(loaded.ok()) << path;
  EXPECT_EQ(loaded.status().code(), StatusCode::kUnsupported);
  for (const std::string& word : words) {
    EXPECT_NE(loaded.status().message().find(word), std::string::npos)
        << word << " is not in: " << loaded.status().message();
  }
}

TEST(NetworkPlugin, IsLoadedOnceHoweverOftenItIsAskedFor) {
  const auto first = LoadNetworkPlugin(Fake("good"));
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_STREQ(first.value()->name, "fake");
  EXPECT_EQ(LoadNetworkPlugin(Fake("good")).value(), first.value());
}

TEST(NetworkPlugin, RefusalsSayWhyAndTheCure) {
  ExpectRefusal(Fake("absent"), {"built without RoCE", "fake_absent.so", "install libibverbs-dev"});
  ExpectRefusal(Fake("unmet"), {"does not load", "fake_library.so: cannot open", "rdma-core"});
  ExpectRefusal(Fake("other"), {"fake_other.so", "it has no rocecoll_network_plugin"});
  const uint32_t version = NetworkPlugin::kVersion;
  ExpectRefusal(Fake("old"), {"fake_old.so", "version " + std::to_string(version - 1),
                              "for version " + std::to_string(version), "install rocecoll"});
  const std::string text = testing::TempDir() + "no_object.so";
  std::ofstream(text) << "text";
  ExpectRefusal(text, {"does not load", "no_object.so"});
}

TEST(NetworkPlugin, LiesBesideTheCore) {
  EXPECT_TRUE(VerbsPluginPath().ends_with("librocecoll_verbs.so"));
  std::string core = VerbsPluginPath();
  core.replace(core.rfind("librocecoll_verbs.so"), std::string::npos, "runtime_test");
  EXPECT_TRUE(std::ifstream(core).good()) << core << ": these tests link the core into themselves";
}

}  // namespace
}  // namespace rocecoll
