# SPDX-License-Identifier: Apache-2.0
"""fully_shard on CPUs: what sharded ranks compute is what one process computes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.distributed as dist
from reference import assert_close, assert_like_gloo
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

pytestmark = pytest.mark.lossy

TURNS = 4
RATE = 0.05
WIDTH = 7  # no multiple of any number of ranks here
ROUNDING = 1e-11
Results = list[torch.Tensor]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.widen = nn.Linear(WIDTH, 13)
        self.narrow = nn.Linear(13, WIDTH, bias=False)
        self.scale = nn.Parameter(torch.ones(1))  # fewer elements than ranks

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + self.scale * self.narrow(torch.tanh(self.widen(self.norm(inputs))))


def make_model(dtype: torch.dtype = torch.float64) -> nn.Sequential:
    torch.manual_seed(17)
    return nn.Sequential(*(Block() for _ in range(3)), nn.Linear(WIDTH, 2)).to(dtype)


def sharded(model: nn.Sequential, mesh: DeviceMesh, **options: Any) -> nn.Sequential:
    for part in model:
        fully_shard(part, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)
    assert all(isinstance(parameter, DTensor) for parameter in model.parameters())
    return model


def batch(rank: int, turn: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(500 * turn + rank)
    return torch.randn(3, WIDTH, generator=generator, dtype=torch.float64)


def all_batches(turn: int) -> torch.Tensor:
    return torch.cat([batch(rank, turn) for rank in range(dist.get_world_size())])


def step(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = model(inputs).square().mean()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.3)
    optimizer.step()
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


def adam(model: nn.Module) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), lr=RATE)


def full_weights(model: nn.Module) -> Results:
    return [parameter.full_tensor().detach() for parameter in model.parameters()]


def train_alone() -> tuple[nn.Module, Results]:
    model = make_model()
    optimizer = adam(model)
    return model, [step(model, optimizer, all_batches(turn)) for turn in range(TURNS)]


def world_mesh() -> DeviceMesh:
    return init_device_mesh("cpu", (dist.get_world_size(),))


def check_training(reshard: bool | int) -> None:
    """Losses' gradients, their norms and the weights, with Adam and clipping."""
    model = sharded(make_model(), world_mesh(), reshard_after_forward=reshard)
    optimizer = adam(model)
    norms = [step(model, optimizer, batch(dist.get_rank(), turn)) for turn in range(TURNS)]
    alone, expected_norms = train_alone()
    assert_close(norms, expected_norms, ROUNDING)
    assert_close(full_weights(model), list(alone.parameters()), ROUNDING)


@pytest.mark.parametrize("size, reshard", [(2, True), (2, False), (3, True), (3, False), (4, 2)])
def test_training(shared_pool, size: int, reshard: bool | int) -> None:
    shared_pool(size).run(check_training, reshard)


def check_replicated() -> None:
    """Sharded in each row of the mesh, the same in all rows."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = sharded(make_model(), mesh)
    optimizer = adam(model)
    for turn in range(TURNS):
        step(model, optimizer, batch(dist.get_rank(), turn))
    assert_close(full_weights(model), list(train_alone()[0].parameters()), ROUNDING)


def test_replicated(shared_pool) -> None:
    shared_pool(4).run(check_replicated)


def check_accumulation() -> None:
    """Backward passes that only add, and one that communicates; parameters fetched ahead."""
    model = sharded(make_model(), world_mesh())
    parts = [part for part in model if isinstance(part, FSDPModule)]
    for part, following in itertools.pairwise(parts):
        part.set_modules_to_forward_prefetch([following])
        following.set_modules_to_backward_prefetch([part])
    for turn in range(3):
        model.set_requires_gradient_sync(turn == 2)
        handle = model.unshard(async_op=True)
        handle.wait()
        model(batch(dist.get_rank(), turn)).square().mean().backward()
    alone = make_model()
    for turn in range(3):
        alone(all_batches(turn)).square().mean().backward()
    assert_close(
        [parameter.grad.full_tensor() for parameter in model.parameters()],
        [parameter.grad for parameter in alone.parameters()],
        ROUNDING,
    )


@pytest.mark.parametrize("size", [2, 3])
def test_accumulation(shared_pool, size: int) -> None:
    shared_pool(size).run(check_accumulation)


def low_precision(group: dist.ProcessGroup, reduced: torch.dtype) -> Results:
    """Weights travel in bfloat16, gradients in `reduced`."""
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16, reduce_dtype=reduced, output_dtype=torch.float32
    )
    mesh = DeviceMesh.from_group(group, "cpu")
    model = sharded(make_model(torch.float32), mesh, mp_policy=policy)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for turn in range(2):
        step(model, optimizer, batch(dist.get_rank(), turn).float())
    return full_weights(model)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(
    "reduced, tolerance",
    [(torch.float32, 1e-4), (torch.bfloat16, 2e-2)],
    ids=["f32", "bf16"],
)
def test_low_precision(shared_pool, size: int, reduced: torch.dtype, tolerance: float) -> None:
    shared_pool(size).run(assert_like_gloo, low_precision, tolerance, reduced)


def check_state() -> None:
    """Full states are gathered on rank 0 and handed out again from there."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    model = sharded(make_model(), world_mesh())
    optimizer = adam(model)
    for turn in range(TURNS):
        step(model, optimizer, batch(dist.get_rank(), turn))
    full = get_model_state_dict(model, options=options)
    moments = get_optimizer_state_dict(model, optimizer, options=options)
    alone, _ = train_alone()
    if dist.get_rank() == 0:
        assert list(full) == list(alone.state_dict())
        assert_close(full, dict(alone.state_dict()), ROUNDING)
        assert len(moments["state"]) == len(full)
    else:
        assert not full and not moments

    fresh = sharded(make_model(), world_mesh())
    nn.init.zeros_(fresh[0].scale)
    set_model_state_dict(
        fresh,
        full,
        options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True),
    )
    assert_close(full_weights(fresh), full_weights(model), 0.0)


@pytest.mark.parametrize("size", [2, 3])
def test_state(shared_pool, size: int) -> None:
    shared_pool(size).run(check_state)
