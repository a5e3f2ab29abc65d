# SPDX-License-Identifier: Apache-2.0
"""Dozens of groups at work at once: from one thread, from many, while others begin and end."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from exact import assert_same
from reference import own_groups
from torch_features import needs_ordered_groups

pytestmark = [pytest.mark.quick, pytest.mark.lossy]

Check = Callable[[], None]


def subsets(size: int) -> list[list[int]]:
    return [
        list(members)
        for count in range(1, size + 1)
        for members in itertools.combinations(range(size), count)
    ]


def begin_all_kinds(group: dist.ProcessGroup, seed: int) -> tuple[list[dist.Work], list[Check]]:
    """Starts one operation of each kind; returns the works and what must hold once they are done."""
    rank, members = dist.get_rank(group), dist.get_process_group_ranks(group)
    size, count = len(members), 400 * (seed % 7) + 1
    total = torch.full((count,), complex(rank, seed))
    copy = torch.full((count,), 1.0 * rank + seed)
    gathered = [torch.empty(2, seed % 5, dtype=torch.int32) for _ in members]
    scattered = torch.empty(count, dtype=torch.int64)
    # Rank r sends r + t + 1 numbers to rank t.
    exchanged = [torch.empty(rank + other + 1) for other in range(size)]
    root = members[seed % size]
    works = [
        dist.all_reduce(total, group=group, async_op=True),
        dist.broadcast(copy, root, group=group, async_op=True),
        dist.all_gather(gathered, torch.full_like(gathered[0], rank), group=group, async_op=True),
        dist.reduce_scatter_tensor(
            scattered, torch.arange(size).repeat_interleave(count), group=group, async_op=True
        ),
        dist.all_to_all(
            exchanged,
            [torch.full((rank + other + 1,), 10.0 * rank + other) for other in range(size)],
            group=group,
            async_op=True,
        ),
        dist.barrier(group, async_op=True),
    ]
    expected_total = torch.full((count,), complex(sum(range(size)), size * seed))
    checks: list[Check] = [
        lambda: assert_same(total, expected_total, ("all_reduce", members)),
        lambda: assert_same(copy, torch.full((count,), 1.0 * (seed % size) + seed), "broadcast"),
        lambda: assert_same(scattered, torch.full((count,), rank * size), "reduce_scatter"),
    ]
    for source in range(size):
        checks += [
            lambda one=source: assert_same(
                gathered[one], torch.full_like(gathered[one], one), ("all_gather", members)
            ),
            lambda one=source: assert_same(
                exchanged[one], torch.full((rank + one + 1,), 10.0 * one + rank), "all_to_all"
            ),
        ]
    return works, checks


def finish(works: list[dist.Work], checks: list[Check]) -> None:
    for work in reversed(works):
        work.wait()
    for check in checks:
        check()


@own_groups()
def check_every_subset(copies: int) -> None:
    """Every subset of the ranks is a group, some several times; all have work in flight."""
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = [(members, dist.new_group(members)) for members in subsets(size) * copies]
    works, checks = [], []
    for seed, (members, group) in enumerate(groups):
        if rank in members:
            more_works, more_checks = begin_all_kinds(group, seed)
            works += more_works
            checks += more_checks
    finish(works, checks)


@pytest.mark.parametrize(("size", "copies"), [(2, 8), (3, 4), (4, 2)])
def test_every_subset(shared_pool, size: int, copies: int) -> None:
    shared_pool(size).run(check_every_subset, copies)


def run_threads(drive: Callable[[int], None], count: int, while_running: Check) -> None:
    """drive(0), ... in a thread each; the first error of any is raised here."""
    failed: list[BaseException] = []

    def guarded(index: int) -> None:
        try:
            drive(index)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    while_running()
    for thread in threads:
        thread.join(200)
    assert not any(thread.is_alive() for thread in threads)
    if failed:
        raise failed[0]


@own_groups()
def check_groups_come_and_go() -> None:
    """Threads with groups of their own work on while the main thread makes and ends others."""
    size = dist.get_world_size()
    groups = [dist.new_group() for _ in range(4)]

    def drive(index: int) -> None:
        for turn in range(6):
            finish(*begin_all_kinds(groups[index], 3 * turn + index))

    def come_and_go() -> None:
        for turn in range(8):
            group = dist.new_group([turn % size, (turn + 1) % size])
            if group is not dist.GroupMember.NON_GROUP_MEMBER:
                finish(*begin_all_kinds(group, turn))
                dist.destroy_process_group(group)

    run_threads(drive, len(groups), come_and_go)


@pytest.mark.parametrize("size", [2, 3])
def test_groups_come_and_go(shared_pool, size: int) -> None:
    shared_pool(size).run(check_groups_come_and_go)


@own_groups()
def check_same_ranks_again() -> None:
    """A group of the same ranks is made anew each time; the old one's end leaves no trace in it."""
    world = dist.new_group()
    for turn in range(10):
        group = dist.new_group()
        works, checks = begin_all_kinds(group, turn)
        in_world = begin_all_kinds(world, turn)
        finish(works, checks)
        dist.destroy_process_group(group)
        finish(*in_world)


@pytest.mark.parametrize("size", [2, 3])
def test_same_ranks_again(shared_pool, size: int) -> None:
    shared_pool(size).run(check_same_ranks_again)


def check_futures() -> None:
    """Chains of callbacks behind operations of two groups, and one future for all of them."""
    size = dist.get_world_size()
    groups = [dist.group.WORLD, dist.new_group()]
    chains = []
    for turn in range(12):
        future = dist.all_reduce(
            torch.full((3000 * (turn % 3) + 1,), 1.0 + turn), group=groups[turn % 2], async_op=True
        ).get_future()
        halved = future.then(lambda done: done.value()[0] / size)
        chains.append(halved.then(lambda done: done.value().sum()))
    total = torch.futures.collect_all(chains).then(
        lambda done: sum(one.value().item() for one in done.value())
    )
    assert total.wait() == sum((3000 * (turn % 3) + 1) * (1.0 + turn) for turn in range(12))
    dist.destroy_process_group(groups[1])


@pytest.mark.parametrize("size", [2, 3])
def test_futures(shared_pool, size: int) -> None:
    shared_pool(size).run(check_futures)


def check_failing_callback() -> None:
    """A callback that raises is the error of its own future, not of the operation or the group."""
    size = dist.get_world_size()
    tensor = torch.ones(10)
    work = dist.all_reduce(tensor, async_op=True)

    def fail(_: torch.futures.Future) -> None:
        raise ValueError("a user's mistake")

    with pytest.raises(Exception, match="a user's mistake"):
        work.get_future().then(fail).wait()
    assert work.wait()
    assert (tensor == size).all()
    dist.barrier()


@pytest.mark.parametrize("size", [2, 3])
def test_failing_callback(shared_pool, size: int) -> None:
    shared_pool(size).run(check_failing_callback)


@own_groups()
def check_ways_to_make_groups() -> None:
    """torch's helpers for many groups, and groups that only their own ranks make."""
    rank = dist.get_rank()
    halves, _ = dist.new_subgroups(2)
    listed, _ = dist.new_subgroups_by_enumeration([[0, 3], [1, 2]])
    reversed_pair = dist.new_group([3, 1], sort_ranks=False)
    if rank % 2 == 1:
        alone = dist.new_group(
            [1, 3], use_local_synchronization=True, timeout=timedelta(seconds=200)
        )
        finish(*begin_all_kinds(alone, 5))
        assert dist.get_process_group_ranks(reversed_pair) == [3, 1]
        assert dist.get_rank(reversed_pair) == (rank == 1)
        finish(*begin_all_kinds(reversed_pair, 6))
    finish(*begin_all_kinds(halves, 7))
    finish(*begin_all_kinds(listed, 8))


@needs_ordered_groups
def test_ways_to_make_groups(own_pool) -> None:
    """torch numbers groups on each rank; afterwards only some ranks have counted one more."""
    with own_pool(4) as pool:
        pool.run(check_ways_to_make_groups)


@own_groups()
def check_rings_in_groups() -> None:
    """Round four overlapping rings at once, the peers named by their place in the group."""
    size = dist.get_world_size()
    works, checks = [], []
    for index in range(4):
        members = list(range(size)) if index % 2 else list(reversed(range(size)))
        group = dist.new_group(members, sort_ranks=False)
        rank = dist.get_rank(group)
        received = torch.empty(5000 + index)
        operations = [
            dist.P2POp(
                dist.isend,
                torch.full((5000 + index,), 1.0 * rank),
                group=group,
                group_peer=(rank + 1) % size,
            ),
            dist.P2POp(dist.irecv, received, group=group, group_peer=(rank - 1) % size),
        ]
        works += dist.batch_isend_irecv(operations)
        checks.append((received, torch.full((5000 + index,), 1.0 * ((rank - 1) % size))))
    for work in works:
        work.wait()
    for actual, expected in checks:
        assert_same(actual, expected, "ring")


@needs_ordered_groups
@pytest.mark.parametrize("size", [2, 3])
def test_rings_in_groups(shared_pool, size: int) -> None:
    shared_pool(size).run(check_rings_in_groups)
