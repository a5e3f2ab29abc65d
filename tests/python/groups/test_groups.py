# SPDX-License-Identifier: Apache-2.0
"""Sub-groups, several at once, and leaving and joining again in the same process."""

from __future__ import annotations

import os
import warnings
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from exact import assert_same
from torch.distributed import distributed_c10d as c10d

pytestmark = [pytest.mark.quick, pytest.mark.lossy]


def check_disjoint_groups() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = [dist.new_group(list(range(parity, size, 2))) for parity in (0, 1)]
    mine = groups[rank % 2]
    members = list(range(rank % 2, size, 2))
    tensor = torch.tensor([float(rank)])
    dist.all_reduce(tensor, group=mine)
    assert tensor.item() == sum(members)
    tensor = torch.tensor([float(rank)])
    dist.broadcast(tensor, members[-1], group=mine)  # the root is a global rank
    assert tensor.item() == members[-1]
    for group in groups:
        dist.destroy_process_group(group)


def test_disjoint_groups(shared_pool) -> None:
    shared_pool(5).run(check_disjoint_groups)


def check_groups_of_one_name() -> None:
    """As torch 2.14 and later call those that only some ranks make."""
    rank = dist.get_rank()
    members = [[0, 1], [0, 1], [2, 3, 4], [2, 3, 4], [2, 3, 4]][rank]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(c10d, "_process_group_name", lambda *_, **__: "same")
        group = dist.new_group(members, use_local_synchronization=True)
    tensor = torch.tensor([float(rank)])
    dist.all_reduce(tensor, group=group)
    assert tensor.item() == sum(members)
    dist.barrier()
    dist.destroy_process_group(group)


def test_groups_of_one_name(shared_pool) -> None:
    shared_pool(5).run(check_groups_of_one_name)


def check_overlapping_groups() -> None:
    """Operations of five groups with common ranks in flight at once, waited for in reverse."""
    rank = dist.get_rank()
    memberships = [[0, 1, 2, 3, 4], [0, 1], [1, 2, 3], [4, 3, 0], [2]]
    groups = [dist.new_group(members) for members in memberships]
    works, tensors = [], []
    for turn in range(10):
        for members, group in zip(memberships, groups, strict=True):
            if rank in members:
                tensor = torch.full((1000 * turn + 1,), float(rank + turn))
                tensors.append((tensor, sum(members) + turn * len(members)))
                works.append(dist.all_reduce(tensor, group=group, async_op=True))
    for work in reversed(works):
        work.wait()
    for tensor, expected in tensors:
        assert_same(tensor, torch.full_like(tensor, expected), (rank, expected))
    for group in groups:
        dist.destroy_process_group(group)


def test_overlapping_groups(shared_pool) -> None:
    shared_pool(5).run(check_overlapping_groups)


def check_many_groups() -> None:
    """Groups come and go; the operations of a group that is gone disturb nobody."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for turn in range(12):
        group = dist.new_group([turn % size, (turn + 1) % size])
        if rank in (turn % size, (turn + 1) % size):
            tensor = torch.ones(5)
            dist.all_reduce(tensor, group=group)
            assert tensor.tolist() == [2.0] * 5
            dist.destroy_process_group(group)
    dist.barrier()


def test_many_groups(shared_pool) -> None:
    shared_pool(3).run(check_many_groups)


def check_again(directory: str) -> None:
    """Leaves and joins three times, with the ranks in another order each time."""
    rank, size = dist.get_rank(), dist.get_world_size()
    backend = dist.get_backend()
    for turn in range(3):
        dist.destroy_process_group()
        rank = (rank + 1) % size
        dist.init_process_group(
            backend,
            init_method=f"file://{directory}/again{turn}",
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=200),
        )
        tensor = torch.full((3000,), float(rank))
        dist.all_reduce(tensor)
        assert (tensor == sum(range(size))).all()


@pytest.mark.parametrize("size", [1, 2, 4])
def test_leave_and_join_again(own_pool, tmp_path, size: int) -> None:
    with own_pool(size) as pool:
        pool.run(check_again, str(tmp_path))


def check_smaller_group(directory: str) -> None:
    """There is a processor for each rank of the smaller group, but not for each of the world."""
    rank, size = dist.get_rank(), dist.get_world_size()
    backend = dist.get_backend()
    dist.destroy_process_group()
    processors = os.sched_getaffinity
    os.sched_getaffinity = lambda _: set(range(size - 1))
    try:
        dist.init_process_group(
            backend, init_method=f"file://{directory}/store", rank=rank, world_size=size
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            group = dist.new_group(list(range(size - 1)))
    finally:
        os.sched_getaffinity = processors
    if rank < size - 1:
        dist.barrier(group)


def test_smaller_group_has_the_same_settings(own_pool, tmp_path) -> None:
    with own_pool(3) as pool:
        pool.run(check_smaller_group, str(tmp_path))


def check_objects_in_group() -> None:
    group = dist.new_group([0, 2])
    if dist.get_rank() in (0, 2):
        gathered: list = [None, None]
        dist.all_gather_object(gathered, {"global rank": dist.get_rank()}, group=group)
        assert [one["global rank"] for one in gathered] == [0, 2]
        dist.destroy_process_group(group)


def test_objects_in_group(shared_pool) -> None:
    shared_pool(3).run(check_objects_in_group)
