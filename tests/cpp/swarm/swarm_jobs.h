// SPDX-License-Identifier: Apache-2.0
// The calls of a swarm: their memory, and what must be in it once they are complete and ever after.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "engine/call.h"
#include "swarm/swarm_cluster.h"

namespace rocecoll {

class Job {
 public:
  virtual ~Job() = default;
  // Calls the rank's part, operations that complete on their own; none if it has none.
  virtual std::vector<OperationPtr> submit(Rank rank, Status* refused) = 0;
  // Of a part whose operations all have an ok status.
  virtual bool is_right(Rank rank) const = 0;
  // What the part had lent.
  virtual std::vector<std::span<int32_t>> memory(Rank rank) = 0;

  // The part is complete, so the memory is the caller's: whoever writes to it from now on shows.
  void take_back(Rank rank) {
    for (const auto span : memory(rank)) std::ranges::fill(span, kTakenBack);
  }
  bool is_untouched(Rank rank) {
    return std::ranges::all_of(memory(rank), [](std::span<int32_t> span) {
      return std::ranges::all_of(span, [](int32_t value) { return value == kTakenBack; });
    });
  }

 private:
  static constexpr int32_t kTakenBack = -77777777;
};

class CollectiveJob final : public Job {
 public:
  CollectiveJob(EngineCluster& cluster, const SwarmJob& job, GroupId group)
      : call_(cluster,
              {.collective = job.collective,
               .elements = job.elements,
               .root = job.root,
               .in_place = job.in_place,
               .uniform = job.uniform,
               .part_elements = job.part_elements},
              group) {}
  std::vector<OperationPtr> submit(Rank rank, Status* refused) override {
    return {call_.submit(rank, refused)};
  }
  bool is_right(Rank rank) const override { return call_.is_right(rank); }
  std::vector<std::span<int32_t>> memory(Rank rank) override {
    const auto memory = call_.memory(rank);
    return {memory.begin(), memory.end()};
  }

 private:
  Call call_;
};

// One message from each sender to the root, which receives from them by name or from anybody.
class MessagesJob final : public Job {
 public:
  // `number` tells the jobs apart.
  MessagesJob(EngineCluster& cluster, const SwarmJob& job, GroupId group, uint32_t number)
      : cluster_(cluster), job_(job), group_(group), number_(number), sent_(cluster.ranks()) {}
  std::vector<OperationPtr> submit(Rank rank, Status* refused) override {
    std::vector<OperationPtr> operations;
    if (Contains(job_.senders, rank)) {
      for (uint64_t i = 0; i < job_.elements; ++i) sent_[rank].push_back(value(rank, i));
      operations.push_back(call(rank, Collective::kSend, job_.root, sent_[rank], refused));
    }
    if (rank != job_.root) return operations;
    for (Rank from = 0; from < cluster_.ranks() && refused->ok(); ++from) {
      if (!Contains(job_.senders, from)) continue;
      received_.push_back({std::vector<int32_t>(job_.elements, -1), from, nullptr});
      received_.back().operation =
          call(rank, Collective::kRecv, from, received_.back().data, refused);
      operations.push_back(received_.back().operation);
    }
    return operations;
  }
  bool is_right(Rank rank) const override {
    for (uint64_t i = 0; i < sent_[rank].size(); ++i) {
      if (sent_[rank][i] != value(rank, i)) return false;
    }
    if (rank != job_.root) return true;
    RankSet seen = 0;
    for (const Received& message : received_) {
      const Rank from = job_.any_source ? message.operation->source() : message.from;
      seen |= RankSet{1} << from;
      for (uint64_t i = 0; i < job_.elements; ++i) {
        if (message.data[i] != value(from, i)) return false;
      }
    }
    return seen == job_.senders;
  }
  std::vector<std::span<int32_t>> memory(Rank rank) override {
    std::vector<std::span<int32_t>> all{sent_[rank]};
    if (rank != job_.root) return all;
    for (Received& message : received_) all.push_back(message.data);
    return all;
  }

 private:
  struct Received {
    std::vector<int32_t> data;
    Rank from = 0;
    OperationPtr operation;
  };
  int32_t value(Rank from, uint64_t i) const {
    return static_cast<int32_t>(number_ * 31 + from * 1009 + i % 4093);
  }
  // Jobs share two tags, but for those in which a receive could get another job's message.
  uint32_t tag() const { return job_.any_source ? 100003 * (number_ + 1) : 7 * (number_ % 2); }
  OperationPtr call(Rank rank, Collective collective, Rank peer, std::vector<int32_t>& memory,
                    Status* refused) {
    OperationSpec spec;
    spec.collective = collective;
    spec.type = DataType::kInt32;
    spec.any_source = job_.any_source && collective == Collective::kRecv;
    spec.root = peer;
    spec.user_tag = tag();
    (collective == Collective::kSend ? spec.input : spec.output) = {
        memory.data(), Partition::Even(memory.size(), 1)};
    return cluster_.submit(rank, std::move(spec), group_, refused);
  }

  EngineCluster& cluster_;
  const SwarmJob job_;
  const GroupId group_;
  const uint32_t number_;
  std::vector<std::vector<int32_t>> sent_;
  std::vector<Received> received_;
};

}  // namespace rocecoll
