# SPDX-License-Identifier: Apache-2.0
"""Work objects: many in flight, futures, callbacks, and waiting in other threads."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from exact import assert_same
from harness import Pool

pytestmark = [pytest.mark.quick, pytest.mark.lossy]


def check_many_in_flight() -> None:
    """More operations than the engine keeps in flight, of mixed kinds and sizes."""
    rank, size = dist.get_rank(), dist.get_world_size()
    works, checks = [], []
    for turn in range(40):
        count = (turn * 977) % 20_000 + 1
        total = torch.full((count,), float(rank + turn))
        works.append(dist.all_reduce(total, async_op=True))
        checks.append((total, torch.full((count,), float(sum(range(size)) + size * turn))))
        copy = torch.full((count,), float(rank))
        works.append(dist.broadcast(copy, turn % size, async_op=True))
        checks.append((copy, torch.full((count,), float(turn % size))))
        gathered = torch.empty(size * 7)
        works.append(
            dist.all_gather_into_tensor(gathered, torch.full((7,), 1.0 * rank), async_op=True)
        )
        checks.append((gathered, torch.arange(float(size)).repeat_interleave(7)))
    for work in reversed(works):
        assert work.wait()
        assert work.is_completed()
    for actual, expected in checks:
        assert_same(actual, expected, "in flight")


def test_many_in_flight(pool: Pool) -> None:
    pool.run(check_many_in_flight)


def check_short_waits() -> None:
    """The error says which operation of which group it is, and whom it waits for."""
    store = dist.distributed_c10d._get_default_store()
    rank = dist.get_rank()
    group = dist.new_group([0, 1])
    if rank == 0:
        calls = {
            r"recv #1 \(from rank 1, tag 7, float32, 3 elements\) waits for rank 1 \(\S+\)": (
                group.recv([torch.zeros(3)], 1, 7)
            ),
            r"all_reduce #1 \(SUM, float32, 5 elements\) waits for rank 1 \(\S+\)": (
                dist.all_reduce(torch.ones(5), group=group, async_op=True)
            ),
        }
        for waits, work in calls.items():
            told = f'timed out waiting 20 ms; the operation is still running: group "{group.group_name}": {waits}; '
            with pytest.raises(dist.DistBackendError, match=told + "wait"):
                work.wait(timedelta(milliseconds=20))
        store.set("has waited", "")
        for work in calls.values():
            work.wait()
    elif rank == 1:
        store.wait(["has waited"])
        group.send([torch.ones(3)], 0, 7).wait()
        dist.all_reduce(torch.ones(5), group=group)
    dist.barrier()
    if rank < 2:
        dist.destroy_process_group(group)


def test_waits_that_are_too_short(own_pool) -> None:
    with own_pool(3) as pool:
        pool.run(check_short_waits)


def check_futures() -> None:
    size = dist.get_world_size()
    tensor = torch.ones(1000)
    work = dist.all_reduce(tensor, async_op=True)
    future = work.get_future()
    doubled = future.then(lambda done: done.value()[0] * 2)
    assert_same(doubled.wait(), torch.full((1000,), 2.0 * size), "then")
    assert future.done()
    assert_same(future.wait()[0], tensor, "value")
    after = future.then(lambda done: "added when already complete")
    assert after.wait() == "added when already complete"
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert work.get_future().done()


def test_futures(pool: Pool) -> None:
    pool.run(check_futures)


def check_collective_inside_callback() -> None:
    """A callback that begins the next operation, as DDP's communication hooks do."""
    size = dist.get_world_size()
    first = torch.ones(100)
    second = torch.ones(100)
    done = threading.Event()

    def next_operation(_: torch.futures.Future) -> None:
        work = dist.all_reduce(second, async_op=True)
        work.get_future().then(lambda _: done.set())

    dist.all_reduce(first, async_op=True).get_future().then(next_operation)
    assert done.wait(200)
    assert (second == size).all()


def test_collective_inside_callback(pool: Pool) -> None:
    pool.run(check_collective_inside_callback)


def check_threads_wait() -> None:
    size = dist.get_world_size()
    tensors = [torch.full((5000,), float(i)) for i in range(8)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    errors: list[BaseException] = []

    def wait_for(work: dist.Work) -> None:
        try:
            work.wait()
        except BaseException as error:
            errors.append(error)

    # Each operation has a thread of its own, and the first has three.
    threads = [threading.Thread(target=wait_for, args=(work,)) for work in [*works, *works[:1] * 2]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
    assert not errors and not any(thread.is_alive() for thread in threads)
    for i, tensor in enumerate(tensors):
        assert (tensor == i * size).all()


def test_threads_wait(pool: Pool) -> None:
    pool.run(check_threads_wait)


def check_threads_with_groups() -> None:
    """Each thread drives a group of its own; the order between groups is free."""
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = [dist.new_group() for _ in range(3)]
    failed: list[BaseException] = []

    def drive(index: int) -> None:
        try:
            for turn in range(20):
                tensor = torch.full((turn * 100 + 1,), float(rank + index))
                dist.all_reduce(tensor, group=groups[index])
                assert (tensor == sum(range(size)) + size * index).all()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=drive, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
    assert not failed, failed
    assert not any(thread.is_alive() for thread in threads)
    for group in groups:
        dist.destroy_process_group(group)


@pytest.mark.parametrize("size", [2, 3])
def test_threads_with_groups(shared_pool, size: int) -> None:
    shared_pool(size).run(check_threads_with_groups)


def check_dropped_work() -> None:
    """The caller keeps neither the work nor the tensor; the operation completes all the same."""
    size = dist.get_world_size()
    for _ in range(10):
        dist.all_reduce(torch.ones(10_000), async_op=True)
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == size


def test_dropped_work(pool: Pool) -> None:
    pool.run(check_dropped_work)


def check_progress_without_waiting() -> bool:
    """Nobody calls wait(): the operation completes in the background, on every rank."""
    future = dist.all_reduce(torch.ones(200_000), async_op=True).get_future()
    done = threading.Event()
    future.then(lambda _: done.set())
    return done.wait(200)


def test_progress_without_waiting(pool: Pool) -> None:
    assert all(pool.run(check_progress_without_waiting))


def check_progress_after_waits() -> bool:
    """Messages that nobody waits for complete in the background, also after many that were waited
    for at once."""
    rank, size = dist.get_rank(), dist.get_world_size()
    small, after, before = torch.ones(2), (rank + 1) % size, (rank - 1) % size
    for _ in range(20):
        sent = dist.isend(small, after)
        dist.recv(torch.empty(2), before)
        sent.wait()
        if rank == 0:
            dist.send(small, 1)
        elif rank == 1:
            dist.recv(torch.empty(2), 0)
    large, received = torch.full((1_000_000,), float(rank)), torch.empty(1_000_000)
    done = [threading.Event(), threading.Event()]
    works = [dist.irecv(received, before), dist.isend(large, after)]
    for event, work in zip(done, works, strict=True):
        work.get_future().then(lambda _, event=event: event.set())
    completed = all(event.wait(200) for event in done)
    return completed and bool((received == before).all())


@pytest.mark.parametrize("size", [2, 3])
def test_progress_after_waits(shared_pool, size: int) -> None:
    assert all(shared_pool(size).run(check_progress_after_waits))


def check_out_of_order() -> None:
    """A recv pends in one group while a later all_reduce in another finishes."""
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.new_group()
    received, total = torch.zeros(1000), torch.ones(1000)
    if rank == 1:
        receiving = dist.irecv(received, 0, group=group)
    # Ends only when rank 1 has joined, that is after its recv was begun; rank 0 sends after that.
    dist.all_reduce(total)
    assert (total == size).all()
    if rank == 1:
        assert not receiving.is_completed()
    dist.barrier()
    if rank == 0:
        dist.send(torch.full((1000,), 3.0), 1, group=group)
    elif rank == 1:
        receiving.wait()
        assert receiving.is_completed()
        assert (received == 3).all()
    dist.destroy_process_group(group)


@pytest.mark.parametrize("size", [2, 3])
def test_out_of_order(shared_pool, size: int) -> None:
    shared_pool(size).run(check_out_of_order)


# 584 years: in nanoseconds, half a millisecond more than 2^64.
BEYOND_TIME = timedelta(milliseconds=18_446_744_073_710)


def check_timeouts_beyond_time() -> None:
    """They mean "for ever", for a group and for a wait: the message is sent only after the receiver
    was seen waiting."""
    rank = dist.get_rank()
    group = dist.new_group(timeout=BEYOND_TIME)
    received = torch.zeros(1)
    if rank == 0:
        receiving = dist.irecv(received, 1, group=group)
        waiting = threading.Thread(target=receiving.wait, args=(BEYOND_TIME,))
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
    dist.barrier()
    if rank == 1:
        dist.send(torch.ones(1), 0, group=group)
    elif rank == 0:
        waiting.join(200)
        assert received.item() == 1
    dist.destroy_process_group(group)


def test_timeouts_beyond_time(shared_pool) -> None:
    shared_pool(2).run(check_timeouts_beyond_time)
