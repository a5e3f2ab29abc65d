// SPDX-License-Identifier: Apache-2.0
// librocecoll.so is the layers' archives and this one symbol.

extern "C" __attribute__((visibility("default"))) const char* rocecoll_version() { return "0.1.0"; }
