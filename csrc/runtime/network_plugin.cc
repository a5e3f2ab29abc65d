// SPDX-License-Identifier: Apache-2.0
#include "runtime/network_plugin.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

namespace rocecoll {
namespace {

Status Unusable(const std::string& why) { return Status(StatusCode::kUnsupported, why); }

}  // namespace

std::string VerbsPluginPath() {
  Dl_info here{};
  const auto* symbol = reinterpret_cast<const void*>(&VerbsPluginPath);
  const std::filesystem::path core =
      dladdr(symbol, &here) != 0 && here.dli_fname != nullptr ? here.dli_fname : "";
  return core.parent_path() / "librocecoll_verbs.so";
}

Result<const NetworkPlugin*> LoadNetworkPlugin(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return Unusable("built without RoCE (there is no " + path +
                    "); to add it, install libibverbs-dev and then rocecoll again");
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return Unusable("the RoCE plug-in does not load: " + std::string(why != nullptr ? why : path) +
                    "; install rdma-core's libraries (Debian and Ubuntu: apt-get install "
                    "ibverbs-providers)");
  }
  const auto entry = reinterpret_cast<PluginEntry>(dlsym(library, kPluginSymbol));
  const NetworkPlugin* plugin = entry != nullptr ? entry() : nullptr;
  if (plugin != nullptr && plugin->version == NetworkPlugin::kVersion) return plugin;
  Status refusal =
      plugin == nullptr
          ? Unusable(path + " is no network plug-in: it has no " + kPluginSymbol)
          : Unusable(path + " is a plug-in of version " + std::to_string(plugin->version) +
                     ", this is for version " + std::to_string(NetworkPlugin::kVersion) +
                     ": install rocecoll again");
  dlclose(library);
  return refusal;
}

}  // namespace rocecoll
