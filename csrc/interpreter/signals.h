// SPDX-License-Identifier: Apache-2.0
// How both Python modules handle signals while they wait.
#pragma once

#include <pybind11/pybind11.h>

#include "interpreter/main_thread.h"

namespace rocecoll {

// Runs the handlers of signals that have arrived. Python only notes a signal and runs its handler
// once the main thread is back in Python, which a wait would delay. Throws what a handler raises,
// such as KeyboardInterrupt. The caller holds no lock; the GIL may be held or not.
//
// Other threads have no handlers to run, and do not take the GIL: at the end of the process they
// might never get it.
inline void RunSignalHandlers() {
  if (!IsMainThread() || Py_IsInitialized() == 0) return;
  const pybind11::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

}  // namespace rocecoll
