# SPDX-License-Identifier: Apache-2.0
"""The collectives that scripts/bench times, on buffers that are made once, and their check."""

from __future__ import annotations

from enum import Enum

import torch
import torch.distributed as dist


class Operation(str, Enum):
    all_reduce = "all_reduce"
    all_gather = "all_gather"
    reduce_scatter = "reduce_scatter"
    all_to_all = "all_to_all"
    broadcast = "broadcast"


class Case:
    """One operation on buffers of one size: `bytes` of float32 is the larger side of a rank."""

    def __init__(self, operation: Operation, size_bytes: int) -> None:
        self.operation = operation
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.block = max(1, size_bytes // 4 // self.ranks)
        total = self.block * self.ranks
        self.whole = torch.zeros(size_bytes // 4 if operation in WHOLE else total)
        self.part = torch.zeros(self.block)
        self.other = torch.zeros(total) if operation is Operation.all_to_all else None

    def run(self, group: dist.ProcessGroup) -> None:
        if self.operation is Operation.all_reduce:
            dist.all_reduce(self.whole, group=group)
        elif self.operation is Operation.broadcast:
            dist.broadcast(self.whole, 0, group=group)
        elif self.operation is Operation.all_gather:
            dist.all_gather_into_tensor(self.whole, self.part, group=group)
        elif self.operation is Operation.reduce_scatter:
            dist.reduce_scatter_tensor(self.part, self.whole, group=group)
        else:
            dist.all_to_all_single(self.other, self.whole, group=group)

    def verify(self, group: dist.ProcessGroup) -> None:
        """Runs once on known numbers and compares everything that was produced."""
        mine, total = self.rank + 1.0, self.ranks * (self.ranks + 1) / 2
        self.whole.fill_(mine)
        self.part.fill_(mine)
        self.run(group)
        by_rank = torch.arange(1.0, self.ranks + 1).repeat_interleave(self.block)
        actual, expected = {
            Operation.all_reduce: (self.whole, torch.full_like(self.whole, total)),
            Operation.broadcast: (self.whole, torch.ones_like(self.whole)),
            Operation.all_gather: (self.whole, by_rank),
            Operation.reduce_scatter: (self.part, torch.full_like(self.part, total)),
            Operation.all_to_all: (self.other, by_rank),
        }[self.operation]
        if not torch.equal(actual, expected):
            raise SystemExit(f"rank {self.rank}: wrong result of {self.operation.value}")
        self.whole.zero_()  # repeated sums of zeros stay zero
        self.part.zero_()


WHOLE = (Operation.all_reduce, Operation.broadcast)
