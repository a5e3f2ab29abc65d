// SPDX-License-Identifier: Apache-2.0
// Operators that do only what they are called for, whatever thread happens to run them: a waiting
// thread carries out other threads' copies, too, and may be inside a TorchDispatchMode, a transform
// of torch.func or autocast at that moment. Python would then run, and wait for its lock, in the
// middle of the engine's work.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/PythonDispatcherTLS.h>

namespace rocecoll::torch_adapter {

// While it lives this thread dispatches as a new one would.
class PlainDispatch {
 private:
  const c10::impl::ForceDispatchKeyGuard as_new_{
      c10::impl::LocalDispatchKeySet(c10::impl::PODLocalDispatchKeySet{})};
  const c10::impl::DisablePythonDispatcher no_python_;
};

}  // namespace rocecoll::torch_adapter
