# SPDX-License-Identifier: Apache-2.0
"""Processes of several pools that become one group: what tests of reconfigure() share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from harness import Outcome, Pool

import rocecoll

CPU = torch.device("cpu")
ENOUGH_S = 100.0  # for calls that are to succeed
SHORT_S = 2.0  # for calls that are to fail
next_uuid = iter(range(1000, 1 << 30))


@dataclass(frozen=True)
class Process:
    pool: Pool
    rank: int  # in the pool, whatever group it is in by now


def everyone(*pools: Pool) -> list[Process]:
    return [Process(pool, rank) for pool in pools for rank in range(pool.size)]


def attempt(
    processes: Sequence[Process], function: Callable[..., Any], *args: Any
) -> list[Outcome]:
    for process in processes:
        process.pool.send(function, *args, ranks=[process.rank])
    return [process.pool.collect([process.rank])[0] for process in processes]


def run(processes: Sequence[Process], function: Callable[..., Any], *args: Any) -> list[Any]:
    outcomes = attempt(processes, function, *args)
    assert all(outcome.error is None for outcome in outcomes), outcomes
    return [outcome.value for outcome in outcomes]


def backend() -> Any:
    """Of the default group."""
    group: Any = dist.group.WORLD
    return group._get_backend(CPU)


def own_handle() -> str:
    return rocecoll.reconfigure_handle()


def reconfigure(uuid: int, handles: Any, limit_s: float) -> tuple[int, int]:
    group = rocecoll.reconfigure(None, uuid, handles, timedelta(seconds=limit_s))
    assert group is dist.group.WORLD
    check_exchanges()
    return group.rank(), group.size()


def check_exchanges() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    total = torch.tensor([rank + 1])
    dist.all_reduce(total)
    assert total.item() == size * (size + 1) // 2
    arrived = torch.zeros(1)
    work = dist.isend(torch.tensor([float(rank)]), (rank + 1) % size) if size > 1 else None
    if work is not None:
        dist.recv(arrived, (rank - 1) % size)
        work.wait()
        assert arrived.item() == (rank - 1) % size
    objects: list[Any] = [None] * size
    dist.all_gather_object(objects, os.getpid())
    assert len(set(objects)) == size and objects[rank] == os.getpid()


def join(processes: Sequence[Process], by_set: bool = False) -> list[tuple[int, int]]:
    """All of them into one group; (rank, size) of each."""
    handles: Any = run(processes, own_handle)
    return run(
        processes, reconfigure, next(next_uuid), set(handles) if by_set else handles, ENOUGH_S
    )


def in_order(size: int) -> list[tuple[int, int]]:
    return [(rank, size) for rank in range(size)]
