// SPDX-License-Identifier: Apache-2.0
// What torch asks of an accelerator's runtime: devices, streams and events, allocators, hooks.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>

#include "memory.h"
#include "queue.h"

namespace fake_device {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

thread_local int current_device = 0;
thread_local std::array<int64_t, kDevices> current_streams{};
std::array<std::atomic<int64_t>, kDevices> next_stream{};
std::array<std::atomic<int64_t>, kDevices> new_stream{};

StreamKey KeyOf(const Stream& stream) { return {stream.device_index(), stream.id()}; }

StreamKey CurrentKey() { return {current_device, current_streams[current_device]}; }

// As cudaSetDevice(), which torch leaves out where the thread is there.
void SetDevice(int device) {
  if (device == current_device) return;
  current_device = device;
  MakeContext(device);
}

// As torch's events set a thread to their device, and back to where it was.
class OnDevice {
 public:
  explicit OnDevice(int device) { SetDevice(device); }
  ~OnDevice() { SetDevice(before_); }

 private:
  const int before_ = current_device;
};

struct Event {
  Event() { CountEvents(1); }
  ~Event() { CountEvents(-1); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  MarkerPtr marker;
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  Device getDevice() const override {
    return Device(kType, static_cast<DeviceIndex>(current_device));
  }
  void setDevice(Device device) const override {
    TORCH_CHECK(device.index() < kDevices, "fake device: there is no ", device);
    SetDevice(device.index());
  }
  // Makes no context: the thread is there once it uses the device.
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.index() >= 0) current_device = device.index();
  }
  Device exchangeDevice(Device device) const override {
    const Device before = getDevice();
    setDevice(device);
    return before;
  }
  DeviceIndex deviceCount() const noexcept override { return kDevices; }

  Stream make(Device device, int64_t id) const {
    const DeviceIndex index = device.index() >= 0 ? device.index() : getDevice().index();
    return Stream(Stream::UNSAFE, Device(kType, index), id);
  }
  Stream getStream(Device device) const override {
    const int index = device.index() >= 0 ? device.index() : current_device;
    return make(device, current_streams[index]);
  }
  Stream getDefaultStream(Device device) const override { return make(device, 0); }
  Stream getStreamFromGlobalPool(Device device, bool /*high_priority*/) const override {
    const int index = device.index() >= 0 ? device.index() : current_device;
    return make(device, 1 + next_stream[index]++ % kPoolStreams);
  }
  Stream getNewStream(Device device, int /*priority*/) const override {
    const int index = device.index() >= 0 ? device.index() : current_device;
    return make(device, 1 + kPoolStreams + new_stream[index]++);
  }
  Stream exchangeStream(Stream stream) const override {
    const Stream before = getStream(stream.device());
    current_streams[stream.device_index()] = stream.id();
    return before;
  }
  // torch asks it since 2.12.
  virtual bool isStreamCapturing(const Stream& stream) const { return IsCapturing(KeyOf(stream)); }
  bool queryStream(const Stream& stream) const override {
    MindCapture();
    MarkerPtr marker = QueueOf(KeyOf(stream)).mark();
    return marker->reached();
  }
  void synchronizeStream(const Stream& stream) const override {
    QueueOf(KeyOf(stream)).mark()->wait();
  }
  void synchronizeDevice(DeviceIndex index) const override { SynchronizeDevice(index); }

  void record(void** event, const Stream& stream, DeviceIndex /*index*/,
              c10::EventFlag /*flag*/) const override {
    const OnDevice there(stream.device_index());
    if (!*event) *event = new Event;
    static_cast<Event*>(*event)->marker = QueueOf(KeyOf(stream)).mark();
  }
  void destroyEvent(void* event, DeviceIndex index) const noexcept override {
    const OnDevice there(index);
    delete static_cast<Event*>(event);
  }
  void block(void* event, const Stream& stream) const override {
    MindCaptureOf(KeyOf(stream));  // all events are from outside it
    const OnDevice there(stream.device_index());
    QueueOf(KeyOf(stream)).enqueue([marker = static_cast<Event*>(event)->marker] {
      marker->wait();
    });
  }
  bool queryEvent(void* event) const override {
    MindCapture();
    PassQueryHold();
    return static_cast<Event*>(event)->marker->reached();
  }
  void synchronizeEvent(void* event) const override { static_cast<Event*>(event)->marker->wait(); }

  void recordDataPtrOnStream(const c10::DataPtr& data, const Stream& stream) const override {
    if (data.get()) RecordUse(data.get(), KeyOf(stream));
  }
};

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override { return AllocateDevice(bytes, CurrentKey()); }
  void copy_data(void* target, const void* source, size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }
};

struct PinnedAllocator final : at::HostAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    MindCapture();
    return AllocatePinned(bytes);
  }
  void copy_data(void* target, const void* source, size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }
  bool record_event(void* data, void* /*context*/, Stream stream) override {
    return RecordUse(data, KeyOf(stream));
  }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

PinnedAllocator* Pinned() {
  static auto* allocator = new PinnedAllocator;
  return allocator;
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex /*index*/) const override { return true; }
  DeviceIndex deviceCount() const override { return kDevices; }
  DeviceIndex getCurrentDevice() const override { return static_cast<DeviceIndex>(current_device); }
  void setCurrentDevice(DeviceIndex index) const override { SetDevice(index); }
  DeviceIndex exchangeDevice(DeviceIndex index) const override {
    const auto before = static_cast<DeviceIndex>(current_device);
    SetDevice(index);
    return before;
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override {
    return exchangeDevice(index);
  }
  bool isPinnedPtr(const void* data) const override { return IsPinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return Pinned(); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

const bool registered = [] {
  static auto* allocator = new DeviceAllocator;
  c10::SetAllocator(kType, allocator);
  at::setHostAllocator(kType, Pinned());
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace
}  // namespace fake_device
