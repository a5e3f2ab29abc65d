# SPDX-License-Identifier: Apache-2.0
"""Groups made from a group: split and shrink, also after ranks have died."""

from __future__ import annotations

import copy
import os
import signal
from datetime import timedelta
from unittest import mock

import pytest
import torch
import torch.distributed as dist
import torch_features
from torch_features import HAS_SHRINK, needs_shrink

import rocecoll

pytestmark = pytest.mark.quick

CPU = torch.device("cpu")


def total(backend, value: float) -> float:
    tensor = torch.tensor([value])
    backend.allreduce([tensor]).wait()
    return tensor.item()


def check_split() -> None:
    """The Store is not used, and ranks are in the order requested."""
    rank, parent = dist.get_rank(), dist.group.WORLD._get_backend(CPU)
    assert parent.supports_splitting
    mine = [3, 1] if rank in (1, 3) else [0, 2]
    parts = [parent.split(None, mine) for _ in range(3)]  # each with a key of its own
    for turn, part in enumerate(reversed(parts)):
        assert type(part) is type(parent) and part.options.global_ranks_in_group == mine
        assert (part.rank(), part.size()) == (mine.index(rank), 2)
        assert total(part, rank + turn) == sum(mine) + 2 * turn
    again = parts[0].split(None, [1])
    assert (again is None) == (parts[0].rank() == 0)
    if again is not None:
        assert total(again, 5) == 5 and again.options.global_ranks_in_group == [mine[1]]
    # Ranks that are not in it need not call.
    if rank < 3:
        assert total(parent.split(None, [0, 1, 2]), 1) == 3
    assert total(parent, 1) == 4
    for part in parts:
        part.shutdown()


def test_split(shared_pool) -> None:
    shared_pool(4).run(check_split)


def check_refusals() -> None:
    parent = dist.group.WORLD._get_backend(CPU)
    for ranks, why in (([], "no rank"), ([0, 2], "no rank 2 in a group of 2"), ([1, 1], "twice")):
        with pytest.raises(RuntimeError, match=why):
            parent.split(None, ranks)
    if HAS_SHRINK:
        with pytest.raises(RuntimeError, match="is excluded"):
            parent.shrink([dist.get_rank()])
        with pytest.raises(RuntimeError, match="no rank would be left"):
            parent.shrink([0, 1])
    other = rocecoll.Options(algorithm="all_reduce:ring")
    with pytest.raises(RuntimeError, match=r"keeps its Options\(\), Options\(algorithm='all_red"):
        parent.split(None, [0, 1], other)


def test_refusals(shared_pool) -> None:
    shared_pool(2).run(check_refusals)


def check_split_group() -> None:
    """dist.split_group() wants an accelerator and a device for the world: shown a CPU as one."""
    world, rank = dist.group.WORLD, dist.get_rank()
    world.bound_device_id = torch.device("cpu", 0)
    with (
        mock.patch.object(torch.accelerator, "is_available", return_value=True),
        mock.patch.object(torch.accelerator, "current_accelerator", return_value=CPU),
    ):
        part = dist.split_group(
            world, [[0, 2], [1]], timeout=timedelta(seconds=90), group_desc="part"
        )
    world.bound_device_id = None
    assert part.name() == dist.get_backend(part) == "rocecoll" and part.group_desc == "part"
    own = part._get_backend(CPU).options
    assert own._timeout == timedelta(seconds=90) and own.group_name == part.group_name
    assert dist.get_process_group_ranks(part) == ([1] if rank == 1 else [0, 2])
    tensor = torch.tensor([rank])
    dist.all_reduce(tensor, group=part)
    assert tensor.item() == (1 if rank == 1 else 2)
    dist.destroy_process_group(part)


@torch_features.needs_split_group
def test_split_group(shared_pool) -> None:
    shared_pool(3).run(check_split_group)


def check_options_of_parts() -> None:
    """Of a group that torch splits for us, since its devices have different backends."""
    group = dist.new_group(backend="cpu:rocecoll,cuda:gloo", group_desc="whole")
    options = group._get_backend(CPU).options
    options.group_desc = "whole"
    part = group.split_group(list(range(group.size())), None, None, "part", "a part")
    if torch.__version__ >= "2.11":  # before, torch's options have no description
        assert part._get_backend(CPU).options.group_desc == "a part"
    if torch.__version__ >= "2.14":  # before, torch gives both the same options
        assert group._get_backend(CPU).options.group_desc == "whole"
    assert total(part._get_backend(CPU), 1) == group.size()
    dist.destroy_process_group(group)


@torch_features.needs_split_group
def test_a_part_has_options_of_its_own(shared_pool) -> None:
    shared_pool(2).run(check_options_of_parts)


def check_shrink_after_death(dead: int) -> None:
    """The world fails with its rank; those that are left go on."""
    with pytest.raises(RuntimeError, match=f"rank {dead}"):
        for _ in range(100000):
            dist.all_reduce(torch.ones(1))
    before = [rank for rank in range(dist.get_world_size()) if rank != dead]
    me = before.index(dist.get_rank())
    dist.shrink_group([dead])
    assert (dist.get_rank(), dist.get_world_size()) == (me, len(before))
    assert dist.group.WORLD.name() == dist.get_backend() == "rocecoll"
    tensor = torch.tensor([me + 1])
    dist.all_reduce(tensor)
    assert tensor.item() == sum(range(1, len(before) + 1))
    objects: list = [None] * len(before)
    dist.all_gather_object(objects, me)
    assert objects == list(range(len(before)))


@needs_shrink
def test_shrink_after_a_death(own_pool) -> None:
    with own_pool(4) as pool:
        os.kill(pool.process(1).pid, signal.SIGKILL)
        outcomes = pool.attempt(check_shrink_after_death, 1, ranks=[0, 2, 3])
        assert [outcome.error for outcome in outcomes] == [None] * 3, outcomes


def check_shrink_part() -> None:
    group = dist.new_group([0, 1, 2], pg_options=rocecoll.Options(algorithm="all_reduce:ring"))
    options = copy.deepcopy(group._get_backend(CPU).options)
    if dist.get_rank() != 1:
        rest = dist.shrink_group([1], group, shrink_flags=1, pg_options=options)  # SHRINK_ABORT
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=rest)
        assert tensor.tolist() == [2.0] * 3
        assert rest._get_backend(CPU).options.values == {"algorithm": "all_reduce:ring"}
        dist.destroy_process_group(rest)
    dist.barrier()


@needs_shrink
def test_shrink_part_of_the_world(own_pool) -> None:
    with own_pool(3) as pool:
        pool.run(check_shrink_part)
