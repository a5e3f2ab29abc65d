# SPDX-License-Identifier: Apache-2.0
"""Python objects by every object collective: all kinds and lengths, in the world and in groups."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch_features
from exact import assert_same
from torch_features import needs_ordered_groups

pytestmark = [pytest.mark.quick, pytest.mark.lossy]

LARGE_BYTES = 3 * 1024 * 1024 + 1

sizes = pytest.mark.parametrize("size", [2, 3])


@dataclasses.dataclass
class Record:
    """An object of the test's own class, with a tensor inside."""

    rank: int
    text: str
    weights: torch.Tensor


def record(rank: int) -> Record:
    return Record(rank, "é" * (1000 * rank * rank), torch.arange(float(7 * rank)))


def assert_records(records: list[Any], ranks: list[int]) -> None:
    assert [one.rank for one in records] == ranks
    for one, rank in zip(records, ranks, strict=True):
        assert one.text == record(rank).text
        assert_same(one.weights, record(rank).weights, rank)


def check_gather(root: int) -> None:
    """Each rank's object has a length of its own; only the root's list is written."""
    rank, size = dist.get_rank(), dist.get_world_size()
    gathered: list[Any] | None = [None] * size if rank == root else None
    dist.gather_object(record(rank), gathered, root)
    if gathered is not None:
        assert_records(gathered, list(range(size)))


@sizes
@pytest.mark.parametrize("root", [0, 1])
def test_gather(shared_pool, size: int, root: int) -> None:
    shared_pool(size).run(check_gather, root)


def check_scatter(root: int) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    output: list[Any] = [None]
    dist.scatter_object_list(
        output, [record(target) for target in range(size)] if rank == root else None, root
    )
    assert_records(output, [rank])


@sizes
@pytest.mark.parametrize("root", [0, 1])
def test_scatter(shared_pool, size: int, root: int) -> None:
    shared_pool(size).run(check_scatter, root)


def check_broadcast_many() -> None:
    """One list of objects of many kinds, among them none at all and an empty one."""
    rank = dist.get_rank()
    kinds = [None, 0, -1.5, "", "text", b"\x00\xff", (1, [2, {3}]), {"key": ...}, int, Record]
    shared: list[Any] = list(kinds) if rank == 1 else [None] * len(kinds)
    dist.broadcast_object_list(shared, 1)
    assert shared == kinds


@sizes
def test_broadcast_many(shared_pool, size: int) -> None:
    shared_pool(size).run(check_broadcast_many)


def check_large() -> None:
    """Megabytes from one rank next to a few bytes from the others."""
    rank, size = dist.get_rank(), dist.get_world_size()
    large = bytes(range(251)) * (LARGE_BYTES // 251)
    gathered: list[Any] = [None] * size
    dist.all_gather_object(gathered, large if rank == 1 else rank)
    assert gathered == [large if source == 1 else source for source in range(size)]
    shared = [large, "and more"] if rank == 0 else [None, None]
    dist.broadcast_object_list(shared, 0)
    assert shared == [large, "and more"]


@sizes
def test_large(shared_pool, size: int) -> None:
    shared_pool(size).run(check_large)


def check_send_and_receive(batched: bool) -> None:
    """Round the ring, from rank 0 on."""
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    trip: list[Any] = [record(2), [0], None]
    if rank == 0:
        dist.send_object_list(trip, right, use_batch=batched)
    received: list[Any] = [None, None, None]
    source = dist.recv_object_list(received, left, use_batch=batched)
    assert source == left
    assert_records(received[:1], [2])
    assert received[1:] == [list(range(size if rank == 0 else rank)), None]
    if rank != 0:
        received[1].append(rank)
        dist.send_object_list(received, right, use_batch=batched)


@torch_features.needs_object_batches
@sizes
@pytest.mark.parametrize("batched", [False, True], ids=["one by one", "batched"])
def test_send_and_receive(shared_pool, size: int, batched: bool) -> None:
    shared_pool(size).run(check_send_and_receive, batched)


def check_in_group() -> None:
    """Ranks 2 and 0 of three, in this order; roots are named globally and by place in the group."""
    members = [2, 0]
    group = dist.new_group(members, sort_ranks=False)
    rank = dist.get_rank()
    if rank in members:
        gathered: list[Any] | None = [None, None] if rank == 0 else None
        dist.gather_object(record(rank), gathered, group=group, group_dst=1)
        if gathered is not None:
            assert_records(gathered, members)
        output: list[Any] = [None]
        offered = [record(member) for member in members] if rank == 2 else None
        dist.scatter_object_list(output, offered, 2, group=group)
        assert_records(output, [rank])
        shared = [record(1) if rank == 2 else None]
        dist.broadcast_object_list(shared, group=group, group_src=0)
        assert_records(shared, [1])
        if rank == 0:
            dist.send_object_list([record(3)], group=group, group_dst=0)
        else:
            received: list[Any] = [None]
            assert dist.recv_object_list(received, group=group, group_src=1) == 0
            assert_records(received, [3])
        dist.destroy_process_group(group)


@needs_ordered_groups
def test_in_group(shared_pool) -> None:
    shared_pool(3).run(check_in_group)


class Unpicklable:
    def __reduce__(self) -> Any:
        raise TypeError("this object does not travel")


def check_unpicklable() -> None:
    """What fails before anything is sent leaves the group usable."""
    rank, size = dist.get_rank(), dist.get_world_size()
    gathered: list[Any] = [None] * size
    with pytest.raises(TypeError, match="does not travel"):
        dist.all_gather_object(gathered, Unpicklable())
    dist.all_gather_object(gathered, rank)
    assert gathered == list(range(size))


def test_unpicklable(shared_pool) -> None:
    shared_pool(2).run(check_unpicklable)
