// SPDX-License-Identifier: Apache-2.0
#include "python/runtime_object.h"

#include <pybind11/stl.h>

#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/named_status.h"
#include "interpreter/process_end.h"
#include "interpreter/signals.h"
#include "python/errors.h"

namespace py = pybind11;

namespace rocecoll::python {
namespace {

// Runtimes that live, to be shut down before the interpreter ends: afterwards no thread may drop a
// Python buffer. Under the GIL.
std::vector<std::weak_ptr<Runtime>>& LiveRuntimes() {
  static std::vector<std::weak_ptr<Runtime>> runtimes;
  return runtimes;
}

void ShutDownAll() {
  std::vector<std::shared_ptr<Runtime>> live;
  for (const auto& known : std::exchange(LiveRuntimes(), {})) {
    auto runtime = known.lock();
    if (runtime != nullptr && !runtime->forked()) live.push_back(std::move(runtime));
  }
  ProcessEnd::instance().begin();  // those whose end Python waits for have ended
  const py::gil_scoped_release release;
  for (const auto& runtime : live) runtime->progress().shutdown();
  live.clear();
}

// Waits for what operations kept alive: a thread that still releases a buffer when the interpreter
// ends is ended by Python, and takes the process with it. The caller does not hold the GIL.
void End(Runtime* runtime) {
  if (!runtime->forked()) runtime->progress().shutdown();
  delete runtime;
}

template <typename Call>
auto Unlocked(Call call) {
  const py::gil_scoped_release release;
  return call();
}

py::dict ByName(const TransportStats& stats) {
  py::dict result;
  for (const TransportStat& stat : kTransportStats) result[stat.name] = stats.*stat.value;
  return result;
}

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

py::dict ByName(const GroupState& state) {
  py::dict result;
  result["name"] = state.name;
  // Tells groups apart without giving away the key, which packets from strangers do not have.
  result["id"] = HashWords({state.key.high, state.key.low});
  result["rank"] = state.rank;
  result["ranks"] = state.ranks;
  result["global_rank"] = state.global_rank;
  result["failure"] = state.failure;
  result["collectives"] = state.collectives;
  result["pending"] = state.pending;
  result["last"] = state.last;
  result["running"] = state.running;
  result["running_for_s"] = Seconds(state.running_for);
  result["message"] = state.message;
  result["tag"] = state.tag;
  result["progress"] = state.progress;
  result["waits_for"] = state.waits_for;
  return result;
}

py::list ProcessGroups() {
  const auto states = Unlocked([] { return RuntimeOwner::instance().group_states(); });
  py::list groups;
  for (const GroupState& state : states) groups.append(ByName(state));
  return groups;
}

py::object MicrosecondsOf(const std::optional<Duration>& duration) {
  if (!duration) return py::none();
  return py::float_(std::chrono::duration<double, std::micro>(*duration).count());
}

// A row for each way to each rank of each group.
py::list Rows(const std::vector<PeerStats>& peers) {
  py::list rows;
  for (const PeerStats& peer : peers) {
    for (const PathStats& path : peer.paths) {
      py::dict row;
      row["group"] = peer.group;
      row["rank"] = peer.rank;
      row["address"] = peer.address;
      row["path"] = path.path;
      row["in_use"] = path.in_use;
      row["bytes_sent"] = path.traffic.bytes_sent;
      row["bytes_received"] = path.traffic.bytes_received;
      row["packets_sent"] = path.traffic.packets_sent;
      row["packets_received"] = path.traffic.packets_received;
      row["packets_retransmitted"] = path.traffic.packets_retransmitted;
      row["rtt_us"] = MicrosecondsOf(path.rtt);
      row["congestion_window_bytes"] = path.congestion_window_bytes;
      row["last_heard_s"] = peer.age ? py::object(py::float_(Seconds(*peer.age))) : py::none();
      rows.append(std::move(row));
    }
  }
  return rows;
}

}  // namespace

Duration DurationFromSeconds(double seconds, const char* name) {
  if (!(seconds >= 0)) RaiseInvalid(std::string(name) + " is not a time in seconds");
  return FromSeconds(seconds);
}

RuntimeOptions OptionsFrom(const OptionValues& values) {
  auto options = MakeRuntimeOptions(values);
  RaiseUnlessOk(options.status());
  return options.take();
}

RuntimeObject::RuntimeObject(const OptionValues& values) {
  RuntimeOptions options = OptionsFrom(values);
  RoceUse roce;
  auto started = StartRuntime(options, &roce);
  RaiseUnlessOk(started.status());
  runtime_ = std::shared_ptr<Runtime>(new Runtime(RuntimeOwner::instance(), started.take(), values,
                                                  std::move(options), std::move(roce)),
                                      End);
  auto& live = LiveRuntimes();
  std::erase_if(live, [](const std::weak_ptr<Runtime>& runtime) { return runtime.expired(); });
  live.push_back(runtime_);
}

RuntimeObject::~RuntimeObject() {
  const py::gil_scoped_release release;
  runtime_.reset();
}

OperationObject::~OperationObject() {
  const py::gil_scoped_release release;
  operation_.reset();
  runtime_.reset();
}

Progress& ProgressOf(const Runtime& runtime) {
  if (!runtime.forked()) return runtime.progress();
  Raise(NamedStatus(StatusCode::kAborted,
                    "this process was forked from the one that made the runtime, and cannot use it "
                    "(the thread and the connections stayed there). Make one here"));
}

void WaitUnlocked(Progress& progress, const OperationPtr& operation, Duration limit) {
  (void)progress.wait(operation, limit, RunSignalHandlers);
  if (!operation->done() || operation->status().ok()) return;
  ProcessEnd::instance().hold_back(operation->status().code() == StatusCode::kPeerLeft);
}

bool OperationObject::wait(std::optional<double> timeout_s) {
  const Duration limit =
      timeout_s.has_value() ? DurationFromSeconds(*timeout_s, "timeout_s") : Duration::max();
  if (!operation_->done()) {
    Progress& progress = ProgressOf(*runtime_);
    const py::gil_scoped_release release;
    WaitUnlocked(progress, operation_, limit);
  }
  if (!operation_->done()) return false;
  RaiseUnlessOk(operation_->status());
  return true;
}

std::string OperationObject::status() const {
  return std::string(operation_->done() ? ToString(operation_->status().code()) : "pending");
}

void BindRuntime(py::module_& module) {
  py::class_<RuntimeObject>(module, "Runtime", "A socket, an engine and its progress thread.")
      .def(py::init<const OptionValues&>(), py::arg("options") = OptionValues(),
           "Options by name, see option_table().")
      .def_property_readonly(
          "address",
          [](const RuntimeObject& self) { return ProgressOf(*self.runtime()).address().text(); })
      .def("stats",
           [](const RuntimeObject& self) {
             Progress& progress = ProgressOf(*self.runtime());
             return ByName(Unlocked([&] { return progress.stats(); }));
           })
      .def("peer_stats",
           [](const RuntimeObject& self) {
             Progress& progress = ProgressOf(*self.runtime());
             return Rows(Unlocked([&] { return progress.peer_stats(); }));
           })
      .def(
          "shutdown",
          [](const RuntimeObject& self, double limit_s) {
            const Duration limit = DurationFromSeconds(limit_s, "limit_s");
            Progress& progress = ProgressOf(*self.runtime());
            const py::gil_scoped_release release;
            progress.shutdown(limit);
          },
          py::arg("limit_s") = 1.0,
          "Ends all groups and lets their last messages arrive, for at most this time.");
  py::class_<OperationObject>(module, "Operation", "A call that was made and may still run.")
      .def("wait", &OperationObject::wait, py::arg("timeout_s") = py::none(),
           "True once complete, False when the time passed; raises what the operation failed of.")
      .def_property_readonly("done", &OperationObject::done)
      .def_property_readonly("status", &OperationObject::status,
                             "\"pending\", \"ok\", or the kind of its failure.");
  // Of the process's runtime, whichever module started it.
  module.def("process_stats",
             [] { return ByName(Unlocked([] { return RuntimeOwner::instance().stats(); })); });
  module.def("process_groups", &ProcessGroups, "What each of its groups is doing.");
  module.def("process_peer_stats",
             [] { return Rows(Unlocked([] { return RuntimeOwner::instance().peer_stats(); })); });
  module.def(
      "failed_groups",
      [] {
        const EngineState state = RuntimeOwner::instance().state();
        return std::pair(state.failed_groups, state.failures);
      },
      py::call_guard<py::gil_scoped_release>(),
      "Those that exist, and how many have failed so far.");
  py::module_::import("atexit").attr("register")(py::cpp_function(&ShutDownAll));
}

}  // namespace rocecoll::python
