// SPDX-License-Identifier: Apache-2.0
#include "torch/tensors/staging_devices.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "torch/process/device_thread.h"
#include "torch/process/plain_dispatch.h"
#include "torch/tensors/device_event.h"

namespace rocecoll::torch_adapter {
namespace {

// After that the group goes on: copies will run behind whatever keeps the device.
constexpr std::chrono::seconds kPatience(5);

void TellOf(c10::Device device, const std::string& why) {
  Log(Severity::kWarning, "tensors of " + device.str() + " could not be staged: " + why);
}

// On the device's thread: copies each way, of one piece and of rows, as calls queue them.
class FirstCopies {
 public:
  FirstCopies(c10::Device device, const StagingDevices::Means& means)
      : device_(device), means_(means) {}

  void queue() {
    const PlainDispatch plain;
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    memory_ = means_.pool->take(kRows * kColumns, std::make_shared<std::atomic<uint32_t>>(0));
    const at::Tensor host = memory_->tensor(memory_->data(), kRows * kColumns);
    tensor_ = at::empty({kRows, 2 * kColumns}, at::dtype(at::kByte).device(device_));
    for (const c10::Stream& stream : {means_.streams->in, means_.streams->out}) {
      const c10::StreamGuard guard(stream);
      const at::Tensor row = tensor_.view({-1}).narrow(0, 0, kRows * kColumns);
      const at::Tensor rows = tensor_.as_strided({kRows, kColumns}, {2 * kColumns, 1});
      at::Tensor of_host = host;
      at::Tensor of_rows = host.view({kRows, kColumns});
      if (stream == means_.streams->in) {
        of_host.copy_(row, /*non_blocking=*/true);
        of_rows.copy_(rows, /*non_blocking=*/true);
      } else {
        at::Tensor(row).copy_(of_host, /*non_blocking=*/true);
        at::Tensor(rows).copy_(of_rows, /*non_blocking=*/true);
      }
      last_.push_back(std::make_unique<DeviceEvent>(device_));
      last_.back()->record(stream);
    }
  }
  bool over() {
    std::erase_if(last_, [](const auto& event) { return event->query(); });
    return last_.empty();
  }

 private:
  static constexpr int64_t kRows = 4;
  static constexpr int64_t kColumns = 64;

  const c10::Device device_;
  const StagingDevices::Means means_;
  std::shared_ptr<LaneMemory> memory_;
  at::Tensor tensor_;
  std::vector<std::unique_ptr<DeviceEvent>> last_;
};

// What it throws, as text; empty: nothing.
template <typename Step>
std::string Caught(const Step& step) {
  try {
    step();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace

StagingDevices::Means StagingDevices::of(c10::Device device) {
  const std::lock_guard lock(mutex_);
  Means& means = means_[device.index()];
  if (means.pool == nullptr) means.pool = StagingPool::of(device, pool_bytes_);
  if (means.streams == nullptr) means.streams = std::make_shared<CopyStreams>(device);
  return means;
}

void StagingDevices::prepare(c10::Device device) {
  const auto told = std::make_shared<std::promise<std::string>>();
  std::future<std::string> over = told->get_future();
  std::string failed = Caught([&] {
    auto& thread = DeviceThread::of(device);
    thread.post([&thread, told, copies = std::make_shared<FirstCopies>(device, of(device))] {
      std::string why = Caught([&] { copies->queue(); });
      if (!why.empty()) {
        told->set_value(std::move(why));
        return;
      }
      thread.watch([told, copies] {
        bool ended = false;
        std::string why = Caught([&] { ended = copies->over(); });
        if (!why.empty()) ended = true;
        if (ended) told->set_value(std::move(why));
        return ended;
      });
    });
  });
  if (failed.empty() && over.wait_for(kPatience) == std::future_status::ready) failed = over.get();
  if (!failed.empty()) TellOf(device, failed);
}

}  // namespace rocecoll::torch_adapter
