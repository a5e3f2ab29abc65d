# SPDX-License-Identifier: Apache-2.0
"""Distributed checkpoints: what some ranks save, as many or more of them load, also in parallel
with training."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from exact import assert_same
from reference import assert_close, own_groups
from torch import nn
from torch.distributed.checkpoint import state_dict as state_dicts
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

pytestmark = pytest.mark.quick

# How many ranks save, and how many load.
changes = pytest.mark.parametrize(("saving", "loading"), [(2, 2), (2, 3), (3, 2), (3, 1)])

PLACEMENTS = {"rows": [Shard(0)], "columns": [Shard(1)], "everywhere": [Replicate()]}


def full_tensors() -> dict[str, torch.Tensor]:
    """Neither 7 nor 10 is a multiple of 2 or 3 only: shards are uneven, one rank's can be empty."""
    return {
        name: torch.arange(70, dtype=torch.float32).reshape(7, 10) + 1000 * index
        for index, name in enumerate(PLACEMENTS)
    }


def sharded(tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return {
        name: distribute_tensor(tensor, mesh, PLACEMENTS[name]) for name, tensor in tensors.items()
    }


def check_save(path: str) -> None:
    state = sharded(full_tensors())
    state["of rank"] = {str(dist.get_rank()): torch.full((3,), 1.0 * dist.get_rank())}
    state["step"] = 17
    dcp.save(state, checkpoint_id=path)


def check_load(path: str, saving: int) -> None:
    state = sharded({name: torch.zeros(7, 10) for name in PLACEMENTS})
    state["of rank"] = {str(source): torch.zeros(3) for source in range(saving)}
    state["step"] = 0
    dcp.load(state, checkpoint_id=path)
    for name, expected in full_tensors().items():
        assert_same(state[name].full_tensor(), expected, name)
    for source in range(saving):
        assert_same(state["of rank"][str(source)], torch.full((3,), 1.0 * source), source)
    assert state["step"] == 17


@pytest.mark.lossy
@changes
def test_tensors(shared_pool, tmp_path, saving: int, loading: int) -> None:
    shared_pool(saving).run(check_save, str(tmp_path))
    assert (tmp_path / ".metadata").exists()
    shared_pool(loading).run(check_load, str(tmp_path), saving)


@own_groups()
def check_async_save(path: str) -> None:
    """A group of its own coordinates the save while the default group goes on working."""
    size = dist.get_world_size()
    group = dist.new_group()
    state = sharded(full_tensors())
    saved = dcp.async_save(state, checkpoint_id=path, process_group=group)
    for _ in range(10):
        total = torch.ones(20_000)
        dist.all_reduce(total)
        assert (total == size).all()
    saved.result(timeout=200)
    for tensor in state.values():
        tensor.to_local().zero_()
    dcp.load(state, checkpoint_id=path, process_group=group)
    for name, expected in full_tensors().items():
        assert_same(state[name].full_tensor(), expected, name)


@pytest.mark.lossy
@pytest.mark.parametrize("size", [2, 3])
def test_async_save(shared_pool, tmp_path, size: int) -> None:
    shared_pool(size).run(check_async_save, str(tmp_path))


STEPS = 3  # before the checkpoint, and as many after it
SAMPLES = 12


def make_training(ranks: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double()
    if ranks > 1:
        fully_shard(model[0])
        fully_shard(model)
    return model, torch.optim.Adam(model.parameters(), lr=0.05)


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, first: int, rank: int, ranks: int
) -> None:
    """STEPS steps from number `first` on; each rank takes its share of every batch."""
    share = slice(SAMPLES * rank // ranks, SAMPLES * (rank + 1) // ranks)
    for step in range(first, first + STEPS):
        generator = torch.Generator().manual_seed(step)
        inputs = torch.randn(SAMPLES, 5, generator=generator, dtype=torch.float64)
        optimizer.zero_grad()
        model(inputs[share]).square().mean().backward()
        optimizer.step()


def check_begin_training(path: str) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    model, optimizer = make_training(size)
    train(model, optimizer, 0, rank, size)
    weights, moments = state_dicts.get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=path)


def check_resume_training(path: str) -> None:
    """Two halves, on two numbers of ranks, are the whole of a single process."""
    rank, size = dist.get_rank(), dist.get_world_size()
    model, optimizer = make_training(size)
    weights, moments = state_dicts.get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments}
    dcp.load(state, checkpoint_id=path)
    state_dicts.set_state_dict(
        model,
        optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
    )
    train(model, optimizer, STEPS, rank, size)
    alone, its_optimizer = make_training(1)
    train(alone, its_optimizer, 0, 0, 1)
    train(alone, its_optimizer, STEPS, 0, 1)
    whole = state_dicts.StateDictOptions(full_state_dict=True)
    assert_close(state_dicts.get_model_state_dict(model, options=whole), alone.state_dict(), 1e-12)
    expected = state_dicts.get_optimizer_state_dict(alone, its_optimizer)["state"]
    actual = state_dicts.get_optimizer_state_dict(model, optimizer, options=whole)["state"]
    assert_close(actual, expected, 1e-12)


@changes
def test_training_resumes(shared_pool, tmp_path, saving: int, loading: int) -> None:
    shared_pool(saving).run(check_begin_training, str(tmp_path))
    shared_pool(loading).run(check_resume_training, str(tmp_path))


def check_state_of_rank_zero() -> None:
    """Rank 0 alone has a checkpoint of the whole model; loading it spreads the shards."""
    rank, size = dist.get_rank(), dist.get_world_size()
    model, optimizer = make_training(size)
    trained, its_optimizer = make_training(1)
    train(trained, its_optimizer, 0, 0, 1)
    options = state_dicts.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    moments = state_dicts.get_optimizer_state_dict(trained, its_optimizer)
    state_dicts.set_model_state_dict(
        model, trained.state_dict() if rank == 0 else {}, options=options
    )
    state_dicts.set_optimizer_state_dict(
        model, optimizer, moments if rank == 0 else {}, options=options
    )
    for name, parameter in model.named_parameters():
        assert isinstance(parameter, DTensor)
        assert_same(parameter.full_tensor(), trained.get_parameter(name), name)
    gathering = state_dicts.StateDictOptions(full_state_dict=True, cpu_offload=True)
    gathered = state_dicts.get_state_dict(model, optimizer, options=gathering)
    if rank == 0:  # torch gives the whole state to rank 0 only
        assert_close(gathered[0], trained.state_dict(), 0.0)
        assert_close(gathered[1]["state"], moments["state"], 0.0)
    else:
        assert not gathered[0]


@pytest.mark.parametrize("size", [2, 3])
def test_state_of_rank_zero(shared_pool, size: int) -> None:
    shared_pool(size).run(check_state_of_rank_zero)


def check_broken_checkpoint(path: str) -> None:
    """Every rank learns of an error that only one has seen, and can go on."""
    state = sharded(full_tensors())
    bad = {"bad": Unpicklable()} if dist.get_rank() == 1 else {}
    with pytest.raises(dcp.api.CheckpointException, match="unpicklable on rank 1"):
        dcp.save({**state, **bad}, checkpoint_id=path)
    dcp.save(state, checkpoint_id=f"{path}/again")
    assert os.path.exists(f"{path}/again/.metadata")


class Unpicklable:
    def __reduce__(self) -> Any:
        raise TypeError(f"unpicklable on rank {dist.get_rank()}")


@pytest.mark.parametrize("size", [2, 3])
def test_broken_checkpoint(shared_pool, tmp_path, size: int) -> None:
    shared_pool(size).run(check_broken_checkpoint, str(tmp_path))
