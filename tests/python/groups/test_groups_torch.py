# SPDX-License-Identifier: Apache-2.0
"""Process groups as torch sees them: name, default backend, options, and what torch does by name."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed import distributed_c10d as c10d
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import rocecoll
from rocecoll._c10d import Backend

pytestmark = pytest.mark.quick

CPU = torch.device("cpu")
# What torch says of groups that consist of several backends; from 2.14 on the accelerator's decides.
SEVERAL = "custom"
WITH_GLOO = "gloo" if torch.__version__ >= "2.14" else SEVERAL


def reduce_over(group: dist.ProcessGroup) -> None:
    tensor = torch.ones(5)
    dist.all_reduce(tensor, group=group)
    assert tensor.tolist() == [group.size()] * 5


def check_group(name: str, backend: str, expected: str, detail: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dist.set_debug_level(dist.DebugLevel.DETAIL if detail else dist.DebugLevel.OFF)
        try:
            group = dist.new_group(backend=backend, group_desc=f"test of {name}")
        finally:
            dist.set_debug_level(dist.DebugLevel.OFF)
        assert type(group) is dist.ProcessGroup  # torch compares with `is`
        assert (group.name(), dist.get_backend(group)) == (expected, backend)
        assert not group._has_hooks()  # asks the default backend, which must be one
        assert group.group_desc == f"test of {name}"
        assert group.group_name == c10d._world.pg_names[group]
        assert dist.get_process_group_ranks(group) == list(range(dist.get_world_size()))
        assert {"cpu", "cuda"} <= {device.type for device in group._device_types}
        reduce_over(group)
        dist.barrier(group)
        objects: list = [None] * group.size()
        dist.all_gather_object(objects, dist.get_rank(), group=group)
        assert objects == list(range(group.size()))
        reduced = functional.all_reduce(torch.ones(2), "sum", group.group_name)
        assert reduced.tolist() == [group.size()] * 2
        dist.destroy_process_group(group)


@pytest.mark.parametrize("detail", [False, True], ids=["plain", "detail"])
@pytest.mark.parametrize(
    ("backend", "name"),
    [
        ("rocecoll", "rocecoll"),
        ("cpu:rocecoll,cuda:rocecoll", "rocecoll"),
        ("cpu:gloo,cuda:rocecoll", SEVERAL),
        ("cpu:rocecoll,cuda:gloo", WITH_GLOO),
        ("cpu:gloo,cuda:gloo", "gloo"),
    ],
)
def test_group_of_every_kind(shared_pool, backend: str, name: str, detail: bool) -> None:
    """`-W error` all the way. TORCH_DISTRIBUTED_DEBUG=DETAIL makes groups of torch's own class."""
    expected = SEVERAL if detail and name == "rocecoll" else name
    shared_pool(2).run(check_group, f"{backend} {detail}", backend, expected, detail)


def check_beside_nccl() -> None:
    """Without a GPU, gloo stands in for NCCL: torch puts the group together in the same way."""
    dist.Backend._ensure_backend_registered("gloo")
    plugins = dist.Backend._plugins
    with mock.patch.dict(plugins, NCCL=plugins["GLOO"]):
        group = dist.new_group(backend="cpu:rocecoll,cuda:nccl")
    backends = {
        device: type(group._get_backend(torch.device(device))) for device in ("cpu", "cuda")
    }
    assert backends == {"cpu": Backend, "cuda": dist.ProcessGroupGloo}
    reduce_over(group)
    dist.monitored_barrier(group, timeout=timedelta(seconds=60))
    objects: list = [None] * group.size()
    dist.all_gather_object(objects, dist.get_rank(), group=group)
    assert objects == list(range(group.size()))
    dist.destroy_process_group(group)


@pytest.mark.skipif(
    torch.__version__ < "2.14", reason="before torch 2.14 nothing can stand in for NCCL"
)
def test_beside_nccl(shared_pool) -> None:
    shared_pool(2).run(check_beside_nccl)


def check_default_group() -> None:
    group = dist.group.WORLD
    assert group is not None and group.name() == "rocecoll"
    assert group.group_name == "0" and group.group_desc == "default_pg"
    if hasattr(group, "get_group_store"):  # before torch 2.9 there is none
        store = group.get_group_store()
        store.set(f"seen by {dist.get_rank()}", "yes")
        store.wait([f"seen by {rank}" for rank in range(dist.get_world_size())])
    before = group._get_sequence_number_for_group()
    if torch.__version__ < "2.14":  # which has it no more
        group._set_sequence_number_for_group()
    reduce_over(group)
    assert group._get_sequence_number_for_group() == before + 1
    module = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
    module(torch.ones(1, 2)).sum().backward()
    assert module._get_ddp_logging_data()["backend_name"] == "rocecoll"


def test_default_group(shared_pool) -> None:
    shared_pool(2).run(check_default_group)


def check_mesh() -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
    for name in ("rows", "columns"):
        group = mesh.get_group(name)
        assert group.name() == "rocecoll" and group.size() == 2
        reduce_over(group)
    whole = torch.arange(16.0).reshape(4, 4)
    sharded = distribute_tensor(whole, mesh, [Shard(0), Shard(1)])
    assert torch.equal(sharded.redistribute(mesh, [Replicate(), Replicate()]).to_local(), whole)
    again = DeviceMesh.from_group(mesh.get_group("rows"), "cpu")
    assert again.get_group().name() == "rocecoll"
    mine, groups = dist.new_subgroups(2)
    reduce_over(mine)
    for group in groups:
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(group)


def test_meshes_and_subgroups(shared_pool) -> None:
    shared_pool(4).run(check_mesh)


def check_calls_by_name() -> None:
    """torch refuses these for names that it does not know."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dist.monitored_barrier(timeout=timedelta(seconds=200))
        for details in ({}, {"timeout": 200.0}, {"timeout": timedelta(seconds=200)}):
            for backend in ("rocecoll", "cpu:gloo,cuda:rocecoll"):
                group = dist.new_group(backend=backend)
                dist.monitored_barrier(group, wait_all_ranks=True, **details)
                c10d._set_pg_timeout(timedelta(seconds=7), group)
                dist.destroy_process_group(group)
        group = dist.new_group()
        c10d._set_pg_timeout(timedelta(seconds=7), group)
        backend = group._get_backend(CPU)
        assert backend.options._timeout == timedelta(seconds=7)
        backend._set_default_timeout(timedelta(seconds=9))
        assert backend.options._timeout == timedelta(seconds=9)
        for none in (timedelta(0), timedelta(seconds=-5)):
            with pytest.raises(ValueError, match="the timeout must be positive"):
                c10d._set_pg_timeout(none, group)
        assert backend.options._timeout == timedelta(seconds=9)
        dist.barrier(group)
        dist.destroy_process_group(group)


def test_monitored_barrier_and_timeout(shared_pool) -> None:
    shared_pool(2).run(check_calls_by_name)


def check_late_calls() -> None:
    """They are told the group's name and description, as far as it has one."""
    for description, known_as in ((None, ""), ("stages", " (stages)")):
        group = dist.new_group(group_desc=description)
        backend = group._get_backend(CPU)
        told = re.escape(f'group "{group.group_name}"{known_as} has been destroyed on this rank')
        dist.destroy_process_group(group)
        calls: list[Callable[[], Any]] = [
            lambda group=group: group.allreduce([torch.ones(1)]),
            lambda backend=backend: backend.barrier(dist.BarrierOptions()),
            lambda backend=backend: backend.send([torch.ones(1)], 1 - dist.get_rank(), 0),
            lambda group=group: group.monitored_barrier(timedelta(seconds=1)),
        ]
        for call in calls:
            with pytest.raises(ValueError, match=told):
                call()


def test_calls_of_destroyed_groups(shared_pool) -> None:
    shared_pool(2).run(check_late_calls)


def check_options() -> None:
    chosen = rocecoll.Options(eager_bytes=1024, algorithm="all_reduce:ring")
    group = dist.new_group([0, 1], timeout=timedelta(seconds=90), pg_options=chosen)
    own = group._get_backend(CPU).options
    assert isinstance(own, torch._C._distributed_c10d.Backend.Options)
    assert own.values == chosen.values and own.backend == "rocecoll"
    assert own._timeout == timedelta(seconds=90) and own.group_name == group.group_name
    assert own.global_ranks_in_group == [0, 1]
    assert chosen.group_name == ""  # the caller's own is left alone, and serves for more groups
    reduce_over(group)
    dist.destroy_process_group(group)


def test_options_of_a_group(shared_pool) -> None:
    shared_pool(2).run(check_options)


def test_options_copy_print_and_compare() -> None:
    chosen = rocecoll.Options(port_range=(50000, 50100), spin_us=None)
    chosen.group_name, chosen._timeout = "seven", timedelta(seconds=7)
    assert repr(chosen) == "Options(port_range='50000-50100', spin_us='auto')"
    assert repr(eval(repr(chosen), {"Options": rocecoll.Options})) == repr(chosen)
    for twin in (copy.copy(chosen), copy.deepcopy(chosen), pickle.loads(pickle.dumps(chosen))):
        assert twin is not chosen and twin == chosen and type(twin) is rocecoll.Options
        assert (twin.group_name, twin._timeout) == ("seven", timedelta(seconds=7))
    assert chosen != rocecoll.Options(port_range=(50000, 50100))
    assert rocecoll.Options(spin_us=1) != rocecoll.Options(spin_us=2)
    assert chosen != "Options()"


def check_wrong_options() -> None:
    with pytest.raises(TypeError, match=r"pg_options must be rocecoll\.Options, not dict"):
        dist.new_group([0, 1], pg_options={"lane_bytes": 1})


def test_wrong_options(own_pool) -> None:
    with own_pool(2) as pool:
        pool.run(check_wrong_options)
