# SPDX-License-Identifier: Apache-2.0
"""The peers: the libraries that are measured. All peers of a run take turns in the same processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Protocol

import torch.distributed as dist

from rocecoll import environment
from rocecoll.bench.buffers import ROOT, Buffers
from rocecoll.bench.operations import REDUCING, Case, DataType, Operation, Place, Reduction

GIVE_UP_S = 20.0  # of one operation
NO_PEERS = ("undefined", "fake")  # backends of torch that move nothing
REDUCTIONS = {
    Reduction.sum: dist.ReduceOp.SUM,
    Reduction.prod: dist.ReduceOp.PRODUCT,
    Reduction.min: dist.ReduceOp.MIN,
    Reduction.max: dist.ReduceOp.MAX,
    Reduction.avg: dist.ReduceOp.AVG,
}


def missing(names: Iterable[str]) -> str:
    """A message about backends that this torch does not have; empty if it has all."""
    found = [name for name in names if not dist.is_backend_available(name)]
    known = ", ".join(
        name
        for name in dist.Backend.backend_list
        if name not in NO_PEERS and dist.is_backend_available(name)
    )
    return (
        f"this torch has no backend {', '.join(map(repr, found))}: it has {known}" if found else ""
    )


class Peer(Protocol):
    name: str
    moves_data: bool  # and so is verified

    def supports(self, case: Case) -> bool: ...

    def open(self) -> None:
        """Called by all ranks together before each case; keeps what still works."""

    def call(self, buffers: Buffers) -> Callable[[], None]:
        """The call that is timed; everything is looked up beforehand."""

    def drop(self) -> None:
        """Called after a failure: what exists cannot be used any more."""

    def close(self) -> None:
        """Called at the end of the run."""


class TorchPeer:
    """A backend of torch.distributed with a group of its own; `interface` is for gloo."""

    moves_data = True

    def __init__(self, name: str, interface: str | None = None) -> None:
        self.name, self.interface = name, interface
        self.group: dist.ProcessGroup | None = None

    def supports(self, case: Case) -> bool:
        if self.name != "gloo" or case.operation not in REDUCING:
            return True
        return case.reduction is not Reduction.avg and case.data_type is not DataType.bfloat16

    def open(self) -> None:
        if self.group is None:
            with environment.gloo_interface(self.interface):
                self.group = self.new_group()

    def new_group(self) -> dist.ProcessGroup:
        limit = timedelta(seconds=GIVE_UP_S)
        made: dist.ProcessGroup = dist.new_group(backend=self.name, timeout=limit)
        return made

    def drop(self) -> None:
        self.group = None

    def close(self) -> None:
        pass  # destroying it would wait for a group that has given up

    def call(self, buffers: Buffers) -> Callable[[], None]:
        group, mine, result = self.group, buffers.input, buffers.output
        reduction = REDUCTIONS[buffers.case.reduction]

        def copied_all_reduce() -> None:
            result.copy_(mine)
            dist.all_reduce(result, reduction, group=group)

        def send_recv() -> None:
            sent = dist.isend(mine, (buffers.rank + 1) % buffers.ranks, group=group)
            dist.recv(result, (buffers.rank - 1) % buffers.ranks, group=group)
            if sent is not None:  # None: this rank is not of the group
                sent.wait()

        if buffers.case.operation is Operation.all_reduce:
            if buffers.case.place is Place.out_of_place:
                return copied_all_reduce
            return lambda: dist.all_reduce(result, reduction, group=group)
        gathered, scattered = buffers.blocks(result), buffers.blocks(mine)
        return {
            Operation.reduce: lambda: dist.reduce(result, ROOT, reduction, group=group),
            Operation.broadcast: lambda: dist.broadcast(result, ROOT, group=group),
            Operation.all_gather: lambda: dist.all_gather_single(result, mine, group=group),
            Operation.reduce_scatter: lambda: dist.reduce_scatter_single(
                result, mine, reduction, group=group
            ),
            Operation.all_to_all: lambda: dist.all_to_all_single(result, mine, group=group),
            Operation.gather: lambda: dist.gather(mine, gathered, ROOT, group=group),
            Operation.scatter: lambda: dist.scatter(result, scattered, ROOT, group=group),
            Operation.send_recv: send_recv,
            Operation.barrier: lambda: dist.barrier(group=group),
        }[buffers.case.operation]
