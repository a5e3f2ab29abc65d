// SPDX-License-Identifier: Apache-2.0
// rocecoll._core.Runtime and Operation.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>

#include "runtime/option_table.h"
#include "runtime/runtime_owner.h"

namespace rocecoll::python {

class RuntimeObject {
 public:
  explicit RuntimeObject(const OptionValues& values);
  ~RuntimeObject();

  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }
  const RuntimeOptions& options() const { return runtime_->options(); }

 private:
  std::shared_ptr<Runtime> runtime_;
};

class OperationObject {
 public:
  OperationObject(std::shared_ptr<Runtime> runtime, OperationPtr operation)
      : runtime_(std::move(runtime)), operation_(std::move(operation)) {}
  ~OperationObject();

  // True once it is complete; false if the time has passed while the operation goes on. Raises its
  // failure, and what a signal handler raises. The caller holds the GIL, which is released
  // meanwhile.
  bool wait(std::optional<double> timeout_s);
  bool done() const { return operation_->done(); }
  std::string status() const;

 private:
  std::shared_ptr<Runtime> runtime_;
  OperationPtr operation_;
};

// Raises in a forked child, whose copy shares memory with other ranks: it may not even be stepped.
Progress& ProgressOf(const Runtime& runtime);
// Waits until the operation is complete or the time has passed. The caller does not hold the GIL.
// Throws what a signal handler raises.
void WaitUnlocked(Progress& progress, const OperationPtr& operation, Duration limit);

// Raises if `seconds` is negative or not a number.
Duration DurationFromSeconds(double seconds, const char* name);

// Raises for an unknown option or a bad value.
RuntimeOptions OptionsFrom(const OptionValues& values);

void BindRuntime(pybind11::module_& module);

}  // namespace rocecoll::python
