# SPDX-License-Identifier: Apache-2.0
"""Hooks on completed works, and what a work says about itself."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch_features
from torch.distributed.distributed_c10d import _coalescing_manager

pytestmark = pytest.mark.quick

CPU = torch.device("cpu")


def world_group() -> dist.ProcessGroup:
    return dist.distributed_c10d._get_default_group()


def check_hook() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.new_group()
    seen: list[tuple[str, int, float, str]] = []

    def hook(info: Any) -> None:
        assert info.time_finished >= info.time_started
        seconds = info.active_duration.total_seconds()
        seen.append((info.op_type.name, info.seq, seconds, threading.current_thread().name))
        if len(seen) == 1:  # a hook may use the group
            dist.all_reduce(torch.ones(1), group=world_group())

    group._register_on_completion_hook(hook)
    assert group._has_hooks()
    dist.all_reduce(torch.ones(5), group=group)
    work = dist.isend(torch.ones(1), (rank + 1) % size, group=group)
    dist.recv(torch.ones(1), (rank - 1) % size, group=group)
    work.wait()
    with _coalescing_manager(group, CPU):
        dist.broadcast(torch.ones(1), 0, group=group)
    dist.all_reduce(torch.ones(1).to_sparse(), group=group)
    with pytest.raises(RuntimeError, match="invalid root rank"):
        group.broadcast(torch.ones(1), size)
    group._wait_for_pending_works()
    names = sorted(name for name, _, _, _ in seen)
    assert names == ["ALLREDUCE", "ALLREDUCE", "BROADCAST", "RECV", "SEND"], names
    assert seen[0][:2] == ("ALLREDUCE", 1)
    assert all(0 <= seconds < 600 for _, _, seconds, _ in seen)
    assert threading.current_thread().name not in {thread for _, _, _, thread in seen}
    with pytest.raises(RuntimeError, match="already registered"):
        group._register_on_completion_hook(hook)
    dist.destroy_process_group(group)


@torch_features.needs_calls_in_batches
@pytest.mark.parametrize("size", [2, 3])
def test_hook(shared_pool, size: int) -> None:
    shared_pool(size).run(check_hook)


def check_hook_that_raises() -> None:
    group = dist.new_group()
    calls: list[int] = []

    def hook(info: Any) -> None:
        calls.append(info.seq)
        raise ValueError("in the hook")

    group._register_on_completion_hook(hook)
    for _ in range(3):
        dist.barrier(group=group)
    dist.destroy_process_group(group)  # waits for the hooks
    assert calls == [1, 2, 3]


def test_hook_that_raises(shared_pool) -> None:
    shared_pool(2).run(check_hook_that_raises)


def check_failed_work() -> None:
    """A hook hears of works that failed, too, and nobody waits for ever."""
    group = dist.new_group()
    calls: list[str] = []
    group._register_on_completion_hook(lambda info: calls.append(info.op_type.name))
    if dist.get_rank() == 0:
        work = dist.barrier(group=group, async_op=True)
        group.abort()
        with pytest.raises(dist.DistBackendError, match="aborted"):
            work.wait()
        group._wait_for_pending_works()
        assert calls == ["BARRIER"]
    dist.barrier()
    dist.destroy_process_group(group)


def test_failed_work(shared_pool) -> None:
    shared_pool(2).run(check_failed_work)


def check_times() -> None:
    world_group()._enable_collectives_timing()
    started = time.monotonic()
    work = dist.all_reduce(torch.ones(100), async_op=True)
    work.wait()
    assert 0 <= work._get_duration() <= 1000 * (time.monotonic() - started)


def test_times(shared_pool) -> None:
    shared_pool(2).run(check_times)


def check_work() -> None:
    size = dist.get_world_size()
    tensor = torch.ones(3)
    work = dist.all_reduce(tensor, async_op=True)
    assert work.wait(timedelta(seconds=200))
    assert work.is_completed() and work.is_success()
    assert work.result()[0].tolist() == [size] * 3
    with pytest.raises(RuntimeError, match="receives only"):
        work._source_rank()


def test_work(shared_pool) -> None:
    shared_pool(2).run(check_work)


def check_times_out(sparse: bool) -> None:
    """The bound of one wait() ends that wait; the bound of the operation ends the group."""
    if dist.get_rank() == 0:
        tensor = torch.ones(3).to_sparse() if sparse else torch.ones(3)
        work = dist.all_reduce(tensor, async_op=True)
        for _ in range(2):
            with pytest.raises(dist.DistBackendError, match="still running"):
                work.wait(timedelta(milliseconds=50))
        assert not work.is_completed()
        dist.distributed_c10d._set_pg_timeout(timedelta(milliseconds=300), world_group())
        options = dist.BarrierOptions()
        options.timeout = timedelta(milliseconds=2000)
        if hasattr(options, "asyncOp"):  # before torch 2.8 no barrier is told
            options.asyncOp = True
        late = world_group().barrier(options)
        with pytest.raises(dist.DistBackendError, match="timed out"):
            late.wait()
        with pytest.raises(dist.DistBackendError, match="timed out"):
            work.wait()
        assert work.is_completed() and not work.is_success()


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_times_out(own_pool, sparse: bool) -> None:
    with own_pool(2) as pool:
        pool.run(check_times_out, sparse)
