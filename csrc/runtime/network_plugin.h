// SPDX-License-Identifier: Apache-2.0
// Loads network plug-ins (transport/plugin.h). They stay loaded, since the objects they make run
// their code.
#pragma once

#include <string>

#include "base/status.h"
#include "transport/plugin.h"

namespace rocecoll {

// librocecoll_verbs.so in the directory of the core library.
std::string VerbsPluginPath();
// kUnsupported: there is no usable plug-in; the message says why, and the cure.
Result<const NetworkPlugin*> LoadNetworkPlugin(const std::string& path);

}  // namespace rocecoll
