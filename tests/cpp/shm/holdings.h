// SPDX-License-Identifier: Apache-2.0
// What this process holds of the system's, to see whether it is given back.
#pragma once

#include <dirent.h>

#include <cstddef>
#include <fstream>
#include <string>

namespace rocecoll {

struct Holdings {
  size_t descriptors = 0;
  size_t mappings = 0;  // of shared memory

  static Holdings Now() {
    Holdings now;
    DIR* directory = ::opendir("/proc/self/fd");
    while (::readdir(directory) != nullptr) ++now.descriptors;
    ::closedir(directory);
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      now.mappings += line.find("memfd:rocecoll") != std::string::npos ? 1 : 0;
    }
    return now;
  }
  bool operator==(const Holdings&) const = default;
  std::string text() const {
    return std::to_string(descriptors) + " descriptors, " + std::to_string(mappings) + " mappings";
  }
};

}  // namespace rocecoll
