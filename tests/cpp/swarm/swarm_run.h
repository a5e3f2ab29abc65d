// SPDX-License-Identifier: Apache-2.0
// Runs what a seed stands for and says what was wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "swarm/swarm_cluster.h"
#include "swarm/swarm_jobs.h"
#include "swarm/verdict.h"

namespace rocecoll {

struct SwarmResult {
  std::vector<std::string> errors;
  uint64_t trace = 0;  // the same for the same seed
  Duration virtual_time{0};
  uint64_t packets = 0;
  uint64_t parts_done = 0;  // with the right results
  bool failed = false;      // a group ended, which it was allowed to
};

inline std::string InSeconds(Instant time) {
  return std::to_string(Seconds(time - Instant())) + " s";
}

class Swarm {
 public:
  Swarm(const SwarmPlan& plan, SwarmResult& result)
      : plan_(plan), result_(result), cluster_(plan_), verdicts_(plan_), random_(~plan.seed) {
    groups_.push_back(cluster_.group());
    while (groups_.size() < plan.groups) {
      groups_.push_back(cluster_.add_group("second", 2));
    }
    for (const SwarmJob& job : plan.jobs) add_job(job);
    for (Rank rank = 0; rank < plan.ranks; ++rank) {
      workers_.emplace_back(random_.next());
      workers_.back().failed_at.resize(groups_.size(), kNever);
    }
  }

  void run() {
    if (plan_.warm) warm_up();
    plan_.delay_faults(cluster_.now() - Instant());
    cluster_.begin_faults();
    cluster_.program = [this](Rank rank) { return work(rank); };
    cluster_.settle(Instant(plan_.heal_at) - cluster_.now());
    if (!cluster_.run([this] { return all_done(); }, time_to_finish())) {
      for (Rank rank = 0; rank < plan_.ranks; ++rank) report_hang(rank);
    }
    check_failures();
    end_groups();
    run_another_group();
    for (size_t i = 0; i < jobs_.size(); ++i) check_untouched(i);
    result_.trace = cluster_.network().timing_digest();
    result_.packets = cluster_.network().stats().sent;
    result_.virtual_time = cluster_.now() - Instant();
  }

 private:
  struct Part {
    size_t job = 0;
    std::vector<OperationPtr> operations;
  };
  // What a rank's program has reached.
  struct Worker {
    explicit Worker(uint64_t seed) : random(seed) {}
    Random random;
    size_t next_job = 0;
    Instant next_call{};
    std::vector<Part> open;
    std::vector<Instant> failed_at;  // by group
  };

  void error(std::string text) { result_.errors.push_back(std::move(text)); }

  // Every rank exchanges something with every other.
  void warm_up() {
    for (const GroupId group : groups_) {
      Call call(cluster_, {.collective = Collective::kAlltoall, .elements = 1}, group);
      call.submit_all();
      if (!cluster_.run_until_done(call.operations(), time_to_finish())) error("no rank can begin");
    }
  }

  void add_job(const SwarmJob& job) {
    const GroupId group = groups_[job.group];
    const auto number = static_cast<uint32_t>(jobs_.size());
    if (job.kind == SwarmJob::Kind::kMessages) {
      jobs_.push_back(std::make_unique<MessagesJob>(cluster_, job, group, number));
    } else {
      jobs_.push_back(std::make_unique<CollectiveJob>(cluster_, job, group));
    }
    taken_back_.emplace_back(plan_.ranks, false);
  }

  // Calls what there is to call, a few at a time, after thinking.
  Instant work(Rank rank) {
    Worker& worker = workers_[rank];
    if (was_killed(rank)) return kNever;
    note_failures(rank);
    std::erase_if(worker.open, [&](Part& part) { return finish(rank, part); });
    while (worker.next_job < jobs_.size() && worker.open.size() < plan_.depth) {
      if (cluster_.now() < worker.next_call) return worker.next_call;
      call(rank, worker.next_job++);
      worker.next_call = cluster_.now() + Duration(static_cast<int64_t>(worker.random.below(
                                              static_cast<uint64_t>(plan_.max_think.count()))));
    }
    return kNever;
  }
  void call(Rank rank, size_t job) {
    Status refused;
    std::vector<OperationPtr> operations = jobs_[job]->submit(rank, &refused);
    if (!refused.ok()) {
      // Those before the one that was refused, if any, have failed like the group.
      const GroupId group = groups_[plan_.jobs[job].group];
      if (cluster_.engine(rank).group_status(group).ok()) {
        error("rank " + std::to_string(rank) + ": job " + std::to_string(job) +
              " refused: " + refused.message());
      }
      operations.pop_back();
    }
    workers_[rank].open.push_back({job, std::move(operations)});
  }
  // True once all operations of the part are done.
  bool finish(Rank rank, Part& part) {
    bool ok = !part.operations.empty();
    for (const OperationPtr& operation : part.operations) {
      if (!cluster_.is_done(operation)) return false;
      ok = ok && operation->status().ok();
    }
    const GroupId group = groups_[plan_.jobs[part.job].group];
    if (ok && cluster_.engine(rank).group_status(group).ok()) {
      if (!jobs_[part.job]->is_right(rank)) {
        error("rank " + std::to_string(rank) + ": wrong result of job " + std::to_string(part.job) +
              " at " + InSeconds(cluster_.now()));
      }
      ++result_.parts_done;
    }
    jobs_[part.job]->take_back(rank);
    taken_back_[part.job][rank] = true;
    return true;
  }
  void note_failures(Rank rank) {
    for (size_t i = 0; i < groups_.size(); ++i) {
      Instant& failed_at = workers_[rank].failed_at[i];
      const Status status = cluster_.engine(rank).group_status(groups_[i]);
      if (status.ok() || failed_at != kNever) continue;
      failed_at = cluster_.now();
      const std::string objection = verdicts_.objection(rank, status, failed_at);
      if (!objection.empty()) error(objection);
      result_.failed = true;
    }
  }

  bool was_killed(Rank rank) const {
    return std::ranges::any_of(plan_.faults, [&](const SwarmFault& fault) {
      return fault.kind >= SwarmFault::Kind::kKill && Contains(fault.from, rank) &&
             Instant(fault.at) <= cluster_.now();
    });
  }
  bool all_done() {
    for (Rank rank = 0; rank < plan_.ranks; ++rank) {
      if (was_killed(rank)) continue;
      if (workers_[rank].next_job < jobs_.size() || !workers_[rank].open.empty()) return false;
    }
    return true;
  }
  // Since the network is well again: a death is noticed, news of it spread, or all bytes move.
  Duration time_to_finish() const {
    uint64_t bytes = 0;
    for (const SwarmJob& job : plan_.jobs) bytes += 4 * job.elements * plan_.ranks;
    double rate = plan_.wire.bytes_per_second > 0 ? plan_.wire.bytes_per_second : 1e9;
    const double shared = plan_.queue.bytes_per_second / plan_.ranks;
    if (shared > 0) rate = std::min(rate, shared);
    const double moving = 10 * static_cast<double>(bytes) / rate;
    const Duration thinking = plan_.jobs.size() * plan_.max_think;
    const Duration turns = plan_.jobs.size() * 200 * plan_.wire.latency;
    return plan_.connection.peer_timeout + std::chrono::seconds(10) + thinking + turns +
           Duration(static_cast<int64_t>(moving * 1e9));
  }

  void report_hang(Rank rank) {
    const Worker& worker = workers_[rank];
    if (was_killed(rank) || (worker.next_job == jobs_.size() && worker.open.empty())) return;
    std::string text = "rank " + std::to_string(rank) + " hangs at " + InSeconds(cluster_.now()) +
                       ", jobs not complete:";
    for (const Part& part : worker.open) text += " " + std::to_string(part.job);
    error(text + "; next " + std::to_string(worker.next_job));
  }

  // Where a group has failed, every other rank that waits for something has soon failed as well.
  void check_failures() {
    for (size_t i = 0; i < groups_.size(); ++i) {
      Instant first = kNever;
      for (const Worker& worker : workers_) first = std::min(first, worker.failed_at[i]);
      if (first == kNever) continue;
      for (Rank rank = 0; rank < plan_.ranks; ++rank) {
        const Instant failed_at = workers_[rank].failed_at[i];
        if (failed_at == kNever || failed_at <= verdicts_.quiet_after(first)) continue;
        error("group " + std::to_string(i) + " failed at " + InSeconds(first) + ", but rank " +
              std::to_string(rank) + " learned of it at " + InSeconds(failed_at));
      }
    }
  }

  void end_groups() {
    for (Rank rank = 0; rank < plan_.ranks; ++rank) {
      if (cluster_.is_alive(rank)) cluster_.engine(rank).remove_all_groups();
    }
    cluster_.program = [](Rank) { return kNever; };
    const auto empty = [this](Rank rank) {
      return !cluster_.is_alive(rank) || cluster_.is_empty(rank);
    };
    const auto all_empty = [&] {
      for (Rank rank = 0; rank < plan_.ranks; ++rank) {
        if (!empty(rank)) return false;
      }
      return true;
    };
    if (cluster_.run(all_empty, plan_.connection.peer_timeout + std::chrono::seconds(5))) return;
    for (Rank rank = 0; rank < plan_.ranks; ++rank) {
      if (!empty(rank)) error("rank " + std::to_string(rank) + " has links or leases left");
    }
  }

  // Whatever has happened, all processes can work together again, the dead ones' successors too.
  void run_another_group() {
    for (Rank rank = 0; rank < plan_.ranks; ++rank) {
      if (!cluster_.is_alive(rank)) cluster_.restart(rank);
    }
    const GroupId group = cluster_.add_group("another", 3);
    for (const uint64_t elements : {uint64_t{1}, uint64_t{20000}}) {
      Call call(cluster_, {.elements = elements}, group);
      Status refused;
      for (Rank rank = 0; rank < plan_.ranks; ++rank) call.submit(rank, &refused);
      if (!cluster_.run_until_done(call.operations(), time_to_finish())) {
        error("the group after it hangs");
        return end_groups();
      }
      for (Rank rank = 0; rank < plan_.ranks; ++rank) {
        const Status& status = call.operations()[rank]->status();
        if (!status.ok()) error("the group after it failed: " + status.message());
        if (status.ok() && !call.is_right(rank)) error("wrong result in the group after it");
      }
    }
    end_groups();
  }

  void check_untouched(size_t job) {
    for (Rank rank = 0; rank < plan_.ranks; ++rank) {
      if (!taken_back_[job][rank] || jobs_[job]->is_untouched(rank)) continue;
      error("memory of job " + std::to_string(job) + " was written to at rank " +
            std::to_string(rank) + " after it had been given back");
    }
  }

  SwarmPlan plan_;
  SwarmResult& result_;
  std::vector<std::unique_ptr<Job>> jobs_;  // before the cluster, which may write to their memory
  std::vector<std::vector<bool>> taken_back_;  // by job and rank
  SwarmCluster cluster_;
  const Verdicts verdicts_;
  Random random_;
  std::vector<GroupId> groups_;
  std::vector<Worker> workers_;
};

inline SwarmResult RunPlan(const SwarmPlan& plan) {
  SwarmResult result;
  try {
    Swarm(plan, result).run();
  } catch (const std::exception& failure) {
    result.errors.push_back(failure.what());
  }
  return result;
}

}  // namespace rocecoll
