// SPDX-License-Identifier: Apache-2.0
#include "torch/process/capture_mode.h"

#include <dlfcn.h>

namespace rocecoll::torch_adapter {
namespace {

constexpr const char* kName = "cuThreadExchangeStreamCaptureMode";  // since CUDA 10.1

// CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*): swaps the thread's with that.
using Exchange = int (*)(int*);

Exchange Find() {
  void* found = dlsym(RTLD_DEFAULT, kName);
  if (found == nullptr) {
    void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (driver != nullptr) found = dlsym(driver, kName);
  }
  return reinterpret_cast<Exchange>(found);
}

void ExchangeMode(int& mode) {
  static const Exchange exchange = Find();
  if (exchange != nullptr) exchange(&mode);
}

}  // namespace

RelaxedCapture::RelaxedCapture() { ExchangeMode(before_); }

RelaxedCapture::~RelaxedCapture() { ExchangeMode(before_); }

}  // namespace rocecoll::torch_adapter
