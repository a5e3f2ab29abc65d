// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/connection_extensions.h"

#include <dlfcn.h>

#include <cerrno>

namespace rocecoll {
namespace {

// The layout of libibverbs' ibv_ece. Its functions are looked up by name, because older libraries
// lack them, and a plug-in linked against them could not be loaded there.
struct VerbsExtensions {
  uint32_t vendor_id = 0;
  uint32_t options = 0;
  uint32_t comp_mask = 0;
};
using Call = int(ibv_qp*, VerbsExtensions*);

Call* Find(const char* name) { return reinterpret_cast<Call*>(::dlsym(RTLD_DEFAULT, name)); }

}  // namespace

ConnectionExtensions QueryExtensions(ibv_qp& queue_pair) {
  static Call* const query = Find("ibv_query_ece");
  VerbsExtensions found;
  if (query == nullptr || query(&queue_pair, &found) != 0) return {};
  return {found.vendor_id, found.options};
}

ConnectionExtensions InCommon(const ConnectionExtensions& a, const ConnectionExtensions& b) {
  if (a.vendor != b.vendor) return {};
  return {a.vendor, a.options & b.options};
}

int SetExtensions(ibv_qp& queue_pair, const ConnectionExtensions& extensions) {
  static Call* const set = Find("ibv_set_ece");
  if (set == nullptr) return EOPNOTSUPP;
  VerbsExtensions wanted{extensions.vendor, extensions.options};
  return set(&queue_pair, &wanted);
}

}  // namespace rocecoll
