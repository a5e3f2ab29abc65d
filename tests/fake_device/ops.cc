// SPDX-License-Identifier: Apache-2.0
// The operators of the fake accelerator: allocation, views and copies in stream order; everything
// else is computed on the CPU after waiting for the stream. torch.ops.fake_device.* is how tests
// steer the device.
#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include "memory.h"
#include "queue.h"

namespace fake_device {
namespace {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

StreamKey Current(c10::Device device) {
  const c10::Stream stream = c10::impl::VirtualGuardImpl(kType).getStream(device);
  return {stream.device_index(), stream.id()};
}

c10::Device DeviceOr(std::optional<c10::Device> device) {
  const c10::impl::VirtualGuardImpl guard(kType);
  return device && device->has_index() ? *device : guard.getDevice();
}

at::Tensor Empty(c10::IntArrayRef size, std::optional<at::ScalarType> type,
                 std::optional<at::Layout> /*layout*/, std::optional<at::Device> device,
                 std::optional<bool> /*pin*/, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(DeviceOr(device));
  return at::detail::empty_generic(size, c10::GetAllocator(kType),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   type.value_or(at::kFloat), format);
}

at::Tensor EmptyStrided(c10::IntArrayRef size, c10::IntArrayRef stride,
                        std::optional<at::ScalarType> type, std::optional<at::Layout> /*layout*/,
                        std::optional<at::Device> device, std::optional<bool> /*pin*/) {
  const c10::DeviceGuard guard(DeviceOr(device));
  return at::detail::empty_strided_generic(size, stride, c10::GetAllocator(kType),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           type.value_or(at::kFloat));
}

// A tensor's memory as the stream's thread will see it. Holds no reference: who lets the memory go
// too early is to be found out.
struct Raw {
  explicit Raw(const at::Tensor& tensor)
      : data(tensor.numel() == 0 ? nullptr : const_cast<void*>(tensor.const_data_ptr())),
        sizes(tensor.sizes().vec()),
        strides(tensor.strides().vec()),
        type(tensor.scalar_type()) {}
  at::Tensor on_cpu() const { return at::from_blob(data, sizes, strides, at::dtype(type)); }

  void* data;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  at::ScalarType type;
};

void RunCopy(const Raw& source, const Raw& target) {
  if (!source.data) return;
  const at::NoGradGuard no_grad;
  CheckAlive(source.data, "copy from");
  CheckAlive(target.data, "copy to");
  target.on_cpu().copy_(source.on_cpu());
  CheckAlive(source.data, "copy from");
  CheckAlive(target.data, "copy to");
}

std::atomic<bool> fail_copies{false};

void FailCopies(bool fail) { fail_copies = fail; }

at::Tensor CopyFrom(const at::Tensor& self, const at::Tensor& target, bool non_blocking) {
  TORCH_CHECK(!fail_copies, "fake device: told to fail");
  const bool to_host = target.is_cpu();
  const bool from_host = self.is_cpu();
  const StreamKey key = Current(to_host ? self.device() : target.device());
  const at::Tensor source = self.sizes() == target.sizes() ? self : self.expand_as(target);
  Queue& queue = QueueOf(key);
  const void* host = to_host ? target.const_data_ptr() : self.const_data_ptr();
  if ((to_host || from_host) && non_blocking && IsPinned(host)) {
    const std::string direction = to_host ? "d2h" : "h2d";
    const size_t bytes = target.nbytes();
    Log("queue", direction, bytes, key);
    queue.enqueue([source = Raw(source), target = Raw(target), direction, bytes, key] {
      PassHold(direction);
      std::this_thread::sleep_for(std::chrono::microseconds(CopyDelayMicroseconds()));
      RunCopy(source, target);
      Log("done", direction, bytes, key);
    });
    return target;
  }
  queue.enqueue([source = Raw(source), target = Raw(target)] { RunCopy(source, target); });
  if (to_host || from_host) queue.mark()->wait();
  return target;
}

const at::Tensor& Resize(const at::Tensor& self, c10::IntArrayRef size,
                         std::optional<at::MemoryFormat> format) {
  QueueOf(Current(self.device())).mark()->wait();
  return at::native::resize_(self, size, format);
}

at::Tensor CopyFromAndResize(const at::Tensor& self, const at::Tensor& target) {
  if (target.sizes() != self.sizes()) Resize(target, self.sizes(), std::nullopt);
  return CopyFrom(self, target, false);
}

at::Scalar LocalScalar(const at::Tensor& self) { return self.cpu().item(); }

at::Tensor& SetStorage(at::Tensor& self, at::Storage source, int64_t offset, c10::IntArrayRef size,
                       c10::IntArrayRef stride) {
  return at::native::set_storage_cpu_(self, std::move(source), offset, size, stride);
}

void RecordStream(at::Tensor& self, at::Stream stream) {
  RecordUse(self.const_data_ptr(), {stream.device_index(), stream.id()});
}

void Fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack);
}

// Blocks the current stream until open_gate(): what is queued behind it has not run.
std::map<int64_t, MarkerPtr>& Gates() {
  static auto* gates = new std::map<int64_t, MarkerPtr>;
  return *gates;
}

int64_t CloseGate(const c10::Device& device) {
  auto gate = std::make_shared<Marker>();
  QueueOf(Current(DeviceOr(device))).enqueue([gate] { gate->wait(); });
  static int64_t next = 0;
  Gates()[++next] = gate;
  return next;
}

void OpenGate(int64_t gate) {
  Gates().at(gate)->reach();
  Gates().erase(gate);
}

// Adds to a contiguous tensor without waiting: a kernel in stream order.
void QueueAdd(const at::Tensor& self, const at::Scalar& value) {
  TORCH_CHECK(self.is_contiguous(), "fake device: the kernel takes contiguous tensors");
  QueueOf(Current(self.device())).enqueue([raw = Raw(self), value] {
    const at::NoGradGuard no_grad;
    CheckAlive(raw.data, "kernel");
    raw.on_cpu().add_(value);
  });
}

struct ForeignAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    return AllocateForeign(bytes, c10::impl::VirtualGuardImpl(kType).getDevice().index());
  }
  void copy_data(void* target, const void* source, size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }
};

// Floats in memory that is not this device's allocator's.
at::Tensor EmptyForeign(int64_t elements, const c10::Device& device) {
  static auto* allocator = new ForeignAllocator;
  const c10::DeviceGuard guard(DeviceOr(device));
  return at::detail::empty_generic({elements}, allocator,
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), at::kFloat,
                                   std::nullopt);
}

void BeginCaptureThere(const c10::Device& device) { BeginCapture(Current(DeviceOr(device))); }

bool IsCurrentStreamCapturing() { return IsCapturing(Current(DeviceOr(std::nullopt))); }

void SynchronizeAll() {
  for (int device = 0; device < kDevices; ++device) SynchronizeDevice(device);
}

TORCH_LIBRARY(fake_device, library) {
  library.def("close_gate(Device device) -> int", &CloseGate);
  library.def("open_gate(int gate) -> ()", &OpenGate);
  library.def("queue_add(Tensor self, Scalar value) -> ()", &QueueAdd);
  library.def("synchronize() -> ()", &SynchronizeAll);
  library.def("set_copy_delay(int microseconds) -> ()", &SetCopyDelay);
  library.def("hold_copies(str direction, int free) -> ()", &HoldCopies);
  library.def("release_copies() -> ()", &ReleaseCopies);
  library.def("fail_copies(bool fail) -> ()", &FailCopies);
  library.def("hold_queries() -> ()", &HoldQueries);
  library.def("release_queries() -> ()", &ReleaseQueries);
  library.def("begin_capture(Device device) -> ()", &BeginCaptureThere);
  library.def("end_capture() -> bool", &EndCapture);
  library.def("is_current_stream_capturing() -> bool", &IsCurrentStreamCapturing);
  library.def("empty_foreign(int elements, Device device) -> Tensor", &EmptyForeign);
  library.def("events() -> int", &Events);
  library.def("take_contexts() -> int[]", &TakeContexts);
  library.def("take_log() -> str[]", &TakeLog);
  library.def("take_most_pinned() -> int", &TakeMostPinned);
  library.def("take_violations() -> str[]", &TakeViolations);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", TORCH_FN(Empty));
  library.impl("empty_strided", TORCH_FN(EmptyStrided));
  library.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  library.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  library.impl("view", TORCH_FN(at::native::view));
  library.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  library.impl("resize_", TORCH_FN(Resize));
  library.impl("_copy_from", TORCH_FN(CopyFrom));
  library.impl("_copy_from_and_resize", TORCH_FN(CopyFromAndResize));
  library.impl("_local_scalar_dense", TORCH_FN(LocalScalar));
  library.impl("set_.source_Storage_storage_offset", TORCH_FN(SetStorage));
  library.impl("record_stream", TORCH_FN(RecordStream));
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&Fallback>());
}

}  // namespace
}  // namespace fake_device
