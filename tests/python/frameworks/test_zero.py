# SPDX-License-Identifier: Apache-2.0
"""ZeroRedundancyOptimizer: each rank keeps a part of the optimizer's state, and all train as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from reference import assert_close, assert_like_gloo, weights
from test_ddp import BUCKET_MB, ROUNDING, batch, mlp, own_batches
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook import hook_with_zero_step
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.lossy

TURNS = 5
RATE = 0.05
Group = dist.ProcessGroup


def step(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor) -> None:
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()


def all_batches(turn: int) -> torch.Tensor:
    return torch.cat([batch(rank, turn) for rank in range(dist.get_world_size())])


def train_alone(turns: range) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for turn in turns:
        step(model, optimizer, all_batches(turn))
    return model, optimizer


def state_tensors(state: dict[str, Any]) -> list[torch.Tensor]:
    return [
        torch.as_tensor(value)
        for number in sorted(state["state"])
        for _, value in sorted(state["state"][number].items())
    ]


def check_training(in_buckets: bool) -> None:
    """The weights are those of one process; so is the state, once it has been collected."""
    model = DistributedDataParallel(mlp(), bucket_cap_mb=BUCKET_MB)
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.Adam, parameters_as_bucket_view=in_buckets, lr=RATE
    )
    for inputs in own_batches(TURNS):
        step(model, optimizer, inputs)
    alone, reference = train_alone(range(TURNS))
    assert_close(weights(model), weights(alone), ROUNDING)
    own = sum(len(state) for state in optimizer.optim.state.values())
    assert own < sum(len(state) for state in reference.state.values())

    last = dist.get_world_size() - 1
    optimizer.consolidate_state_dict(to=last)
    if dist.get_rank() == last:
        collected = optimizer.state_dict()
        assert_close(state_tensors(collected), state_tensors(reference.state_dict()), ROUNDING)
    shared = [collected if dist.get_rank() == last else None]
    dist.broadcast_object_list(shared, last)

    # A process that continues from the collected state goes on from there.
    again = DistributedDataParallel(mlp())
    again.load_state_dict(model.state_dict())
    resumed = ZeroRedundancyOptimizer(again.parameters(), torch.optim.Adam, lr=RATE)
    resumed.load_state_dict(shared[0])
    step(again, resumed, batch(dist.get_rank(), TURNS))
    step(alone, reference, all_batches(TURNS))
    assert_close(weights(again), weights(alone), ROUNDING)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("in_buckets", [False, True], ids=["separate", "buckets"])
def test_training(shared_pool, size: int, in_buckets: bool) -> None:
    shared_pool(size).run(check_training, in_buckets)


def uneven_inputs(group: Group) -> list[torch.Tensor]:
    model = DistributedDataParallel(mlp(), process_group=group)
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.Adam, process_group=group, lr=RATE
    )
    with Join([model, optimizer]):
        for inputs in own_batches(2 + 2 * dist.get_rank()):
            step(model, optimizer, inputs)
    return weights(model)


@pytest.mark.parametrize("size", [2, 3])
def test_uneven_inputs(shared_pool, size: int) -> None:
    shared_pool(size).run(assert_like_gloo, uneven_inputs, ROUNDING)


def check_overlap(shard_buckets: bool) -> None:
    """The optimizer steps inside the backward pass, which torch allows no gloo group."""
    model = DistributedDataParallel(
        mlp(), bucket_cap_mb=BUCKET_MB, gradient_as_bucket_view=True, static_graph=True
    )
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.Adam, overlap_with_ddp=True, lr=RATE
    )
    hook: Callable[..., Any] = hook_with_zero_step(
        allreduce_hook, model, optimizer, shard_buckets=shard_buckets
    )
    model.register_comm_hook(None, hook)
    unused = 3  # turns in which DDP finds its buckets and the optimizer does nothing
    for inputs in own_batches(unused + TURNS):
        model.zero_grad()
        model(inputs).square().mean().backward()
    alone, _ = train_alone(range(unused, unused + TURNS))
    assert_close(weights(model), weights(alone), ROUNDING)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("shard_buckets", [False, True], ids=["whole", "sharded"])
def test_overlap(shared_pool, size: int, shard_buckets: bool) -> None:
    shared_pool(size).run(check_overlap, shard_buckets)
