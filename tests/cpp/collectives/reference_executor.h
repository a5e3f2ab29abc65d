// SPDX-License-Identifier: Apache-2.0
// Runs a program on real vectors of all ranks in one thread, by the rules of program.h.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "collectives/partition.h"
#include "collectives/program.h"

namespace rocecoll {

template <typename T>
class ReferenceExecutor {
 public:
  explicit ReferenceExecutor(const Program& program)
      : program_(program), buffers_(program.ranks * 3) {}

  void bind(Rank rank, Buffer buffer, T* data, Partition partition) {
    bound(rank, buffer) = {data, std::move(partition)};
  }
  // `work_like_input`: scratch block i is as large as input block i; otherwise it is as large as
  // the largest block.
  void run(uint32_t lanes, bool work_like_input) {
    const std::vector<Bound> whole = buffers_;
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      for (size_t i = 0; i < whole.size(); ++i) {
        if (whole[i].partition.blocks() == 0) continue;
        buffers_[i] = {whole[i].data, whole[i].partition.lane(lane, lanes)};
      }
      run_lane(work_like_input);
    }
  }

 private:
  struct Bound {
    T* data = nullptr;
    Partition partition;
  };

  Bound& bound(Rank rank, Buffer buffer) {
    return buffers_[rank * 3 + static_cast<size_t>(buffer)];
  }

  void run_lane(bool work_like_input) {
    const uint32_t ranks = program_.ranks;
    const uint32_t work_blocks = program_.work_blocks;
    std::vector<std::vector<T>> work(ranks);
    for (Rank rank = 0; rank < ranks && work_blocks > 0; ++rank) {
      uint64_t largest = 0;
      for (Rank other = 0; other < ranks; ++other) {
        largest = std::max({largest, bound(other, Buffer::kInput).partition.max_block(),
                            bound(other, Buffer::kOutput).partition.max_block()});
      }
      const Partition partition = work_like_input
                                      ? bound(rank, Buffer::kInput).partition.packed()
                                      : Partition::Strided(work_blocks, largest, largest);
      ASSERT_EQ(partition.blocks(), work_blocks);
      work[rank].assign(partition.total(), static_cast<T>(-77));
      bind(rank, Buffer::kWork, work[rank].data(), partition);
    }
    for (uint32_t index = 0; index < program_.steps; ++index) run_step(index);
  }

  void run_step(uint32_t index) {
    const uint32_t ranks = program_.ranks;
    std::map<std::pair<Rank, Rank>, std::deque<std::vector<T>>> messages;
    std::vector<Step> steps;
    for (Rank rank = 0; rank < ranks; ++rank) {
      steps.push_back(program_.step(rank, index));
      for (const Transfer& transfer : steps[rank]) {
        if (transfer.kind == Transfer::Kind::kCopy) {
          write(rank, transfer.blocks, read(rank, transfer.source));
        }
      }
      for (const Transfer& transfer : steps[rank]) {
        if (transfer.kind != Transfer::Kind::kSend) continue;
        auto message = read(rank, transfer.blocks);
        if (!message.empty()) messages[{rank, transfer.peer}].push_back(std::move(message));
      }
    }
    for (Rank rank = 0; rank < ranks; ++rank) {
      for (const Transfer& transfer : steps[rank]) take(rank, transfer, messages);
    }
    for (const auto& [pair, left] : messages) {
      EXPECT_TRUE(left.empty()) << "step " << index << ": " << pair.first << " to " << pair.second;
    }
  }

  template <typename Messages>
  void take(Rank rank, const Transfer& transfer, Messages& messages) {
    const bool reduces = transfer.kind == Transfer::Kind::kRecvReduce;
    if (!reduces && transfer.kind != Transfer::Kind::kRecv) return;
    std::vector<T> own = read(rank, reduces ? transfer.source : transfer.blocks);
    if (own.empty()) return;
    auto& queue = messages[{transfer.peer, rank}];
    ASSERT_FALSE(queue.empty()) << "rank " << rank << " waits for rank " << transfer.peer;
    const std::vector<T> other = std::move(queue.front());
    queue.pop_front();
    ASSERT_EQ(own.size(), other.size());
    if (!reduces) return write(rank, transfer.blocks, other);
    const bool own_is_left = rank < transfer.peer;
    for (size_t i = 0; i < own.size(); ++i) {
      own[i] = own_is_left ? own[i] + other[i] : other[i] + own[i];
    }
    write(rank, transfer.blocks, own);
  }

  std::vector<T> read(Rank rank, const Blocks& blocks) {
    const Bound& from = bound(rank, blocks.buffer);
    std::vector<T> values;
    for (uint32_t i = 0; i < blocks.count; ++i) {
      const ElementRange range = from.partition.block(blocks.at(i, from.partition.blocks()));
      values.insert(values.end(), from.data + range.offset, from.data + range.offset + range.count);
    }
    return values;
  }

  void write(Rank rank, const Blocks& blocks, const std::vector<T>& values) {
    const Bound& to = bound(rank, blocks.buffer);
    size_t next = 0;
    for (uint32_t i = 0; i < blocks.count; ++i) {
      const ElementRange range = to.partition.block(blocks.at(i, to.partition.blocks()));
      ASSERT_LE(next + range.count, values.size());
      std::copy_n(values.begin() + static_cast<ptrdiff_t>(next), range.count,
                  to.data + range.offset);
      next += range.count;
    }
    ASSERT_EQ(next, values.size());
  }

  const Program& program_;
  std::vector<Bound> buffers_;  // [rank][buffer]
};

}  // namespace rocecoll
