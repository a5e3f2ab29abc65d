// SPDX-License-Identifier: Apache-2.0
#include "runtime/runtime_owner.h"

#include <utility>

#include "base/named_status.h"

namespace rocecoll {

Runtime::Runtime(const RuntimeOwner& owner, std::unique_ptr<Progress> progress,
                 OptionValues settings, RuntimeOptions options, RoceUse roce)
    : owner_(&owner),
      progress_(std::move(progress)),
      settings_(std::move(settings)),
      options_(std::move(options)),
      roce_(std::move(roce)) {}

bool Runtime::forked() const { return owner_ != &RuntimeOwner::instance(); }

Runtime::~Runtime() {
  if (forked()) (void)progress_.release();  // never freed
}

RuntimeOwner& RuntimeOwner::instance() { return PerProcess<RuntimeOwner>::instance(); }

Result<std::shared_ptr<Runtime>> RuntimeOwner::start(const OptionValues& settings) {
  const std::lock_guard lock(mutex_);
  if (ended_) return NamedStatus(StatusCode::kAborted, "the runtime has been shut down");
  if (runtime_ != nullptr) {
    const EngineState state = runtime_->progress().state();
    const bool wanted = state.groups > 0 || runtime_->settings() == settings;
    if (wanted && !state.shut_down) return runtime_;
  }
  auto options = MakeRuntimeOptions(settings);
  if (!options.ok()) return options.status();
  retire();  // before the new one starts, which may want the same port
  RoceUse roce;
  auto progress = StartRuntime(options.value(), &roce);
  if (!progress.ok()) return progress.status();
  runtime_ =
      std::make_shared<Runtime>(*this, progress.take(), settings, options.take(), std::move(roce));
  return runtime_;
}

TransportStats RuntimeOwner::stats() {
  const std::lock_guard lock(mutex_);
  return runtime_ == nullptr ? past_stats_ : past_stats_ + runtime_->progress().stats();
}

std::vector<PeerStats> RuntimeOwner::peer_stats() {
  const std::lock_guard lock(mutex_);
  return runtime_ == nullptr ? std::vector<PeerStats>() : runtime_->progress().peer_stats();
}

EngineState RuntimeOwner::state() {
  const std::lock_guard lock(mutex_);
  return runtime_ == nullptr ? EngineState{} : runtime_->progress().state();
}

std::vector<GroupState> RuntimeOwner::group_states() {
  const std::lock_guard lock(mutex_);
  return runtime_ == nullptr ? std::vector<GroupState>() : runtime_->progress().group_states();
}

void RuntimeOwner::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  retire();
}

void RuntimeOwner::retire() {
  if (runtime_ == nullptr) return;
  runtime_->progress().shutdown();
  past_stats_ = past_stats_ + runtime_->progress().stats();
  runtime_.reset();
}

}  // namespace rocecoll
