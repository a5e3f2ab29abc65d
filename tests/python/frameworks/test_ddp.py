# SPDX-License-Identifier: Apache-2.0
"""What DistributedDataParallel can do besides plain training, as with gloo in the same ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
import torch
import torch.distributed as dist
from reference import assert_close, assert_like_gloo, gradients, weights
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.lossy

WIDTH = 6
BUCKET_MB = 0.001  # a bucket for each layer
ROUNDING = 1e-12  # of float64, relative, after a few steps
Group = dist.ProcessGroup


def mlp(dtype: torch.dtype = torch.float64) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Linear(WIDTH, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, WIDTH)
    ).to(dtype)


def batch(rank: int, turn: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * turn + rank)
    return torch.randn(4, WIDTH, generator=generator, dtype=torch.float64).to(dtype)


def train(model: nn.Module, batches: Iterable[torch.Tensor]) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    for inputs in batches:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()


def own_batches(turns: int) -> list[torch.Tensor]:
    return [batch(dist.get_rank(), turn) for turn in range(turns)]


def several_buckets(group: Group) -> list[torch.Tensor]:
    model = DistributedDataParallel(mlp(), process_group=group, bucket_cap_mb=BUCKET_MB)
    train(model, own_batches(4))
    logged = model._get_ddp_logging_data()
    assert len(logged["rebuilt_bucket_sizes"].split(",")) > 2, logged
    return weights(model)


def gradients_in_buckets(group: Group) -> list[torch.Tensor]:
    model = DistributedDataParallel(mlp(), process_group=group, gradient_as_bucket_view=True)
    train(model, own_batches(3))
    assert all(parameter.grad._is_view() for parameter in model.parameters())
    return weights(model) + gradients(model)


class Branches(nn.Module):
    """Every rank uses its own choice of branches, and none uses the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = mlp()
        self.branches = nn.ModuleList(nn.Linear(WIDTH, WIDTH).double() for _ in range(4))
        self.turn = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.turn += 1
        return self.branches[(dist.get_rank() + self.turn) % 3](self.trunk(inputs))


def unused_parameters(group: Group) -> list[torch.Tensor]:
    model = DistributedDataParallel(Branches(), process_group=group, find_unused_parameters=True)
    train(model, own_batches(5))
    assert model.module.branches[3].weight.grad is None
    return weights(model) + gradients(model)


class Recomputing(nn.Module):
    """The same parameters twice, once through a checkpoint: only a static graph may do that."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = mlp()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        once = checkpoint(self.inner, inputs.requires_grad_(), use_reentrant=True)
        return self.inner(once)


def static_graph(group: Group) -> list[torch.Tensor]:
    model = DistributedDataParallel(Recomputing(), process_group=group, static_graph=True)
    train(model, own_batches(4))
    return weights(model)


def accumulation(group: Group) -> list[torch.Tensor]:
    """Steps of three backward passes, of which only the last one communicates."""
    model = DistributedDataParallel(mlp(), process_group=group, bucket_cap_mb=BUCKET_MB)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for turn in range(3):
        optimizer.zero_grad()
        with model.no_sync():
            for part in (0, 1):
                model(batch(dist.get_rank(), 3 * turn + part)).square().mean().backward()
        model(batch(dist.get_rank(), 3 * turn + 2)).square().mean().backward()
        optimizer.step()
    return weights(model) + gradients(model)


def uneven_inputs(group: Group) -> list[torch.Tensor]:
    """Rank r has 2 + 2 r batches. A rank that has none left answers the others' all-reduces."""
    results = []
    for divide_by_all in (True, False):
        model = DistributedDataParallel(mlp(), process_group=group, bucket_cap_mb=BUCKET_MB)
        with model.join(divide_by_initial_world_size=divide_by_all):
            train(model, own_batches(2 + 2 * dist.get_rank()))
        results += weights(model)
    return results


def buffers(group: Group) -> list[torch.Tensor]:
    """Rank 0's running statistics are everybody's at the beginning of every forward pass."""
    module = nn.Sequential(nn.BatchNorm1d(WIDTH), mlp(), nn.BatchNorm1d(WIDTH)).double()
    model = DistributedDataParallel(module, process_group=group)
    train(model, own_batches(4))
    model.eval()
    return [*weights(model), model(batch(0, 0)).detach()]


class Mixed(nn.Module):
    """Parameters of four kinds of number, one of them in two layouts."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.narrow = nn.Linear(WIDTH, WIDTH)
        self.wide = mlp(torch.float64)
        self.brain = nn.Linear(WIDTH, WIDTH).bfloat16()
        self.turned = nn.Parameter(torch.randn(WIDTH, WIDTH, dtype=torch.complex64).t())

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        value = self.wide(self.narrow(inputs.float()).double())
        value = self.brain(value.bfloat16()).to(torch.complex64)
        return (value @ self.turned).abs()


def mixed_types(group: Group) -> list[torch.Tensor]:
    model = DistributedDataParallel(Mixed(), process_group=group, bucket_cap_mb=BUCKET_MB)
    train(model, own_batches(3))
    return weights(model)


PROGRAMS: list[Callable[[Group], list[torch.Tensor]]] = [
    several_buckets,
    gradients_in_buckets,
    unused_parameters,
    static_graph,
    accumulation,
    uneven_inputs,
    buffers,
]


@pytest.mark.quick
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_with_gloo(shared_pool, size: int, program) -> None:
    shared_pool(size).run(assert_like_gloo, program, ROUNDING)


@pytest.mark.parametrize("size", [2, 3])
def test_mixed_types(shared_pool, size: int) -> None:
    shared_pool(size).run(assert_like_gloo, mixed_types, 2.0**-7)  # bfloat16's


def check_early_end() -> None:
    """Rank 0 has fewer batches. The others are told so instead of being answered."""
    model = DistributedDataParallel(mlp())
    with pytest.raises(RuntimeError, match="exhausted"):  # noqa: SIM117
        with model.join(throw_on_early_termination=True):
            train(model, own_batches(2 + dist.get_rank()))
    dist.barrier()


def test_early_end_of_uneven_inputs(shared_pool) -> None:
    shared_pool(3).run(check_early_end)


def check_in_part(members: list[int]) -> None:
    """The members train as one process would on all their batches; the others do something else."""
    others = [rank for rank in range(dist.get_world_size()) if rank not in members]
    groups = [dist.new_group(members), dist.new_group(others)]
    mine, group = (members, groups[0]) if dist.get_rank() in members else (others, groups[1])
    model = DistributedDataParallel(mlp(), process_group=group)
    train(model, own_batches(3))
    alone = mlp()
    train(alone, [torch.cat([batch(rank, turn) for rank in mine]) for turn in range(3)])
    assert_close(weights(model), weights(alone), ROUNDING)
    dist.destroy_process_group(group)


@pytest.mark.parametrize("size, members", [(2, [1]), (3, [2, 0]), (4, [3, 1])])
def test_in_part_of_the_ranks(shared_pool, size: int, members: list[int]) -> None:
    shared_pool(size).run(check_in_part, members)


def check_on_mesh(backend: str) -> None:
    """One dimension of a mesh for each model, both models in one backward pass."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
    assert dist.get_backend(mesh.get_group("rows")) == backend
    models = [
        DistributedDataParallel(mlp(), device_mesh=mesh[dimension], bucket_cap_mb=BUCKET_MB)
        for dimension in ("rows", "columns")
    ]
    rank = dist.get_rank()
    for model in reversed(models):
        model(batch(rank, 0)).square().mean().backward()
    for model, peer in zip(models, (rank ^ 2, rank ^ 1), strict=True):
        alone = mlp()
        alone(torch.cat([batch(rank, 0), batch(peer, 0)])).square().mean().backward()
        assert_close(gradients(model), gradients(alone), ROUNDING)


def test_on_mesh(shared_pool, backend: str) -> None:
    shared_pool(4).run(check_on_mesh, backend)
