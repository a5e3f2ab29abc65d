# SPDX-License-Identifier: Apache-2.0
"""Batches: calls collected by a thread and sent at once, with one work for all of them."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.distributed as dist
import torch_features
from harness import Pool
from torch.distributed.distributed_c10d import _coalescing_manager

pytestmark = pytest.mark.quick

CPU = torch.device("cpu")


def world_group() -> dist.ProcessGroup:
    return dist.distributed_c10d._get_default_group()


def check_usable() -> None:
    """Every kind of call still reaches the other ranks."""
    size = dist.get_world_size()
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [size] * 3
    dist.broadcast(tensor, 0)
    dist.barrier()


def check_batch_isend_irecv() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    outputs = [torch.zeros(count) for count in (1, 3000, 70_000)]
    operations = [dist.P2POp(dist.irecv, output, left) for output in outputs]
    for turn, output in enumerate(outputs):
        value = torch.full_like(output, 10.0 * rank + turn)
        operations.append(dist.P2POp(dist.isend, value, right))
    works = dist.batch_isend_irecv(operations)
    assert len(works) == 1
    assert works[0].wait() and works[0].is_completed() and works[0].is_success()
    for turn, output in enumerate(outputs):
        assert (output == 10.0 * left + turn).all()
    assert works[0].get_future().wait()[0].equal(outputs[0])


@pytest.mark.lossy
@pytest.mark.parametrize("size", [2, 3, 5])
def test_batch_isend_irecv(shared_pool, size: int) -> None:
    shared_pool(size).run(check_batch_isend_irecv)


def check_mixed_collectives() -> None:
    """Given a device, torch passes each call on; it keeps only all_reduce and similar ones."""
    rank, size = dist.get_rank(), dist.get_world_size()
    copy, total = torch.full((5000,), 1.0 * rank), torch.full((7,), 1.0 * rank)
    gathered = [torch.zeros(3) for _ in range(size)]
    before = world_group()._get_backend(CPU)._get_sequence_number_for_group()
    with _coalescing_manager(device=CPU, async_ops=True) as manager:
        assert dist.broadcast(copy, size - 1) is None
        inner = dist.all_gather(gathered, torch.full((3,), 1.0 * rank), async_op=True)
        assert not inner.is_completed()
        dist.reduce(total, 0)
        dist.barrier()
    assert len(manager.works) == 1
    manager.wait()
    assert inner.is_completed() and inner.wait()
    assert (copy == size - 1).all()
    for source in range(size):
        assert (gathered[source] == source).all()
    if rank == 0:
        assert (total == sum(range(size))).all()
    assert world_group()._get_backend(CPU)._get_sequence_number_for_group() == before + 4


def check_fast_paths(device: torch.device | None, async_ops: bool) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    totals = [torch.full((count,), 1.0 * rank) for count in (1, 5, 20_000)]
    gathered = [torch.zeros(size * count) for count in (1, 400)]
    scattered = [torch.zeros(count) for count in (2, 300)]
    with _coalescing_manager(device=device, async_ops=async_ops) as manager:
        for tensor in totals:
            dist.all_reduce(tensor)
    manager.wait()
    with _coalescing_manager(device=device, async_ops=async_ops) as manager:
        for tensor in gathered:
            dist.all_gather_into_tensor(tensor, torch.full((len(tensor) // size,), 1.0 * rank))
    manager.wait()
    with _coalescing_manager(device=device, async_ops=async_ops) as manager:
        for tensor in scattered:
            whole = torch.arange(float(size)).repeat_interleave(len(tensor))
            dist.reduce_scatter_tensor(tensor, whole)
    manager.wait()
    assert all((tensor == sum(range(size))).all() for tensor in totals)
    for tensor in gathered:
        assert tensor.equal(torch.arange(float(size)).repeat_interleave(len(tensor) // size))
    assert all((tensor == rank * size).all() for tensor in scattered)


@torch_features.needs_calls_in_batches
@pytest.mark.lossy
def test_mixed_collectives(pool: Pool) -> None:
    pool.run(check_mixed_collectives)


@pytest.mark.parametrize("device", [None, CPU], ids=str)
@pytest.mark.parametrize("async_ops", [True, False], ids=["async", "sync"])
def test_fast_paths(shared_pool, device: torch.device | None, async_ops: bool) -> None:
    shared_pool(3).run(check_fast_paths, device, async_ops)


def check_empty() -> None:
    with _coalescing_manager(device=CPU, async_ops=True) as manager:
        pass
    assert manager.works == []
    check_usable()


def check_refusal() -> None:
    """Nothing of the batch is sent, and the group goes on, on every rank."""
    rank, size = dist.get_rank(), dist.get_world_size()
    kept = torch.full((4,), 1.0 * rank)
    with (
        pytest.raises(RuntimeError, match="invalid root rank"),
        _coalescing_manager(device=CPU) as _,
    ):
        inner = world_group().broadcast(kept, 0)
        world_group().broadcast(torch.zeros(1), size)
        world_group().broadcast(torch.zeros(1), size + 1)
    assert (kept == rank).all()
    assert inner.is_completed() and not inner.is_success()
    with pytest.raises(RuntimeError, match="another call of the same batch was refused"):
        inner.wait()
    check_usable()


def check_refused_message() -> None:
    """A call that batch_isend_irecv refuses leaves no open batch in torch's record, either."""
    rank, size = dist.get_rank(), dist.get_world_size()
    operations = [
        dist.P2POp(dist.isend, torch.zeros(2), (rank + 1) % size),
        dist.P2POp(dist.irecv, torch.zeros(2), (rank - 1) % size, tag=-1),
    ]
    with pytest.raises(RuntimeError, match="invalid tag"):
        dist.batch_isend_irecv(operations)
    check_usable()
    check_batch_isend_irecv()


def check_refused_by_the_engine() -> None:
    """What the engine refuses, it refuses before the batch's first call starts."""
    rank = dist.get_rank()
    kept = torch.full((4,), 1.0 * rank)
    with (
        pytest.raises(RuntimeError, match="BAND"),
        _coalescing_manager(device=CPU) as _,
    ):
        world_group().broadcast(kept, 0)
        world_group().reduce(torch.ones(4), 0, dist.ReduceOp.BAND)
    assert (kept == rank).all()
    check_usable()


@pytest.mark.parametrize(
    "check", [check_empty, check_refusal, check_refused_message, check_refused_by_the_engine]
)
def test_nothing_is_sent(shared_pool, check) -> None:
    shared_pool(2).run(check)


def check_left_open() -> None:
    """An exception of the program's own leaves the batch open: the next one replaces it."""
    world = world_group()
    world._start_coalescing(CPU)
    lost = world.broadcast(torch.zeros(1), 0)
    with pytest.raises(RuntimeError, match="inside the batch"):
        lost.wait()
    world._start_coalescing(CPU)
    copy = torch.full((2,), 1.0 * dist.get_rank())
    world.broadcast(copy, 1)
    work = world._end_coalescing(CPU)
    work.wait()
    assert copy.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="has never ended"):
        lost.wait()
    with pytest.raises(RuntimeError, match="has started no batch"):
        world._end_coalescing(CPU)
    check_usable()


def test_left_open(shared_pool) -> None:
    shared_pool(2).run(check_left_open)


def check_other_thread() -> None:
    """Only the thread that started the batch collects."""
    world, size = world_group(), dist.get_world_size()
    kept, total = torch.full((2,), 1.0 * dist.get_rank()), torch.ones(2)
    world._start_coalescing(CPU)
    world.broadcast(kept, 0)
    failed: list[BaseException] = []

    def elsewhere() -> None:
        try:
            world.allreduce(total).wait()
            with pytest.raises(RuntimeError, match="has started no batch"):
                world._end_coalescing(CPU)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(200)
    assert not failed and not thread.is_alive(), failed
    assert total.tolist() == [size] * 2
    world._end_coalescing(CPU).wait()
    assert kept.tolist() == [0, 0]


def check_ended_thread() -> None:
    """A thread that ends within a batch leaves it to no later one, which may get its identity."""
    world, size, total = world_group(), dist.get_world_size(), torch.ones(2)
    results: list[object] = []
    for call in (lambda: world._start_coalescing(CPU), lambda: dist.all_reduce(total)):
        thread = threading.Thread(target=lambda call=call: results.append(call()))
        thread.start()
        thread.join(200)
        assert not thread.is_alive()
    assert len(results) == 2
    assert total.tolist() == [size] * 2


def test_ended_thread(shared_pool) -> None:
    shared_pool(2).run(check_ended_thread)


def test_other_thread(shared_pool) -> None:
    shared_pool(3).run(check_other_thread)


def check_profiled() -> list[str]:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        check_batch_isend_irecv()
    return sorted({event.name for event in profiler.events() if event.name.startswith("rocecoll:")})


def test_profiled(shared_pool) -> None:
    expected = ["rocecoll:coalesced", "rocecoll:recv", "rocecoll:send"]
    assert shared_pool(2).run(check_profiled) == [expected] * 2


def fail_in_batch() -> None:
    """The work of the batch, and each inside it, has the group's failure."""
    world = world_group()
    world._start_coalescing(CPU)
    inner = world.recv([torch.zeros(2)], 1, 5)
    world.broadcast(torch.zeros(2), 0)
    whole = world._end_coalescing(CPU)
    future = whole.get_future()
    world.abort()
    for work in (whole, inner):
        with pytest.raises(dist.DistBackendError, match="aborted"):
            work.wait()
    with pytest.raises(RuntimeError, match="aborted"):
        future.wait()
    world._start_coalescing(CPU)
    world.broadcast(torch.zeros(2), 0)
    with pytest.raises(dist.DistBackendError, match="aborted"):
        world._end_coalescing(CPU)


def test_failure(own_pool) -> None:
    with own_pool(2) as pool:
        [outcome] = pool.attempt(fail_in_batch, ranks=[0])
        assert outcome.error is None, outcome.trace
