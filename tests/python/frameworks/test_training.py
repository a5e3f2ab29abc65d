# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel over rocecoll is single-process training on the whole batch."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

pytestmark = [pytest.mark.quick, pytest.mark.lossy]

STEPS = 12
SAMPLES = 24


def make_model(dtype: torch.dtype, batch_norm: bool = False) -> nn.Module:
    torch.manual_seed(11)
    return nn.Sequential(
        nn.Linear(20, 64),
        *([nn.BatchNorm1d(64)] if batch_norm else []),
        nn.Tanh(),
        nn.Linear(64, 64),
        nn.Tanh(),
        nn.Linear(64, 5),
    ).to(dtype)


def batches(dtype: torch.dtype) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(5)
    return [
        (
            torch.randn(SAMPLES, 20, generator=generator, dtype=torch.float64).to(dtype),
            torch.randn(SAMPLES, 5, generator=generator, dtype=torch.float64).to(dtype),
        )
        for _ in range(STEPS)
    ]


def train(model: nn.Module, data: list, rank: int, ranks: int) -> list[float]:
    """Each rank takes its share of every batch; losses are the mean over the ranks."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for inputs, targets in data:
        optimizer.zero_grad()
        share = slice(rank * SAMPLES // ranks, (rank + 1) * SAMPLES // ranks)
        loss = nn.functional.mse_loss(model(inputs[share]), targets[share])
        loss.backward()
        optimizer.step()
        mean = loss.detach().double()
        if ranks > 1:
            dist.all_reduce(mean, dist.ReduceOp.AVG)
        losses.append(mean.item())
    return losses


def check_equal_to_single_process(dtype: torch.dtype, tolerance: float) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(make_model(dtype), bucket_cap_mb=0.01)  # several buckets
    losses = train(model, batches(dtype), rank, size)
    alone = make_model(dtype)
    expected = train(alone, batches(dtype), 0, 1)
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=tolerance, atol=0)
    for mine, reference in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(mine.data, reference.data, rtol=10 * tolerance, atol=tolerance)


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize(
    "dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=["f64", "f32"]
)
def test_equal_to_single_process(shared_pool, size, dtype, tolerance) -> None:
    shared_pool(size).run(check_equal_to_single_process, dtype, tolerance)


def check_ranks_stay_equal() -> list[float]:
    """With buffers to broadcast and a parameter that some steps do not use."""
    rank, size = dist.get_rank(), dist.get_world_size()

    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.trunk = make_model(torch.float32, batch_norm=True)
            self.sometimes = nn.Linear(5, 5)
            self.turn = 0

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            self.turn += 1
            outputs = self.trunk(inputs)
            return self.sometimes(outputs) if self.turn % 2 else outputs

    model = DistributedDataParallel(Branching(), find_unused_parameters=True)
    train(model, batches(torch.float32), rank, size)
    weights = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
    return weights.tolist()


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_stay_equal(shared_pool, size: int) -> None:
    results = shared_pool(size).run(check_ranks_stay_equal)
    assert all(result == results[0] for result in results)


def check_gradient_accumulation() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(nn.Linear(4, 1, bias=False).double())
    with torch.no_grad():
        model.module.weight.fill_(1.0)
    inputs = torch.full((2, 4), float(rank + 1), dtype=torch.float64)
    with model.no_sync():
        model(inputs).sum().backward()
    model(inputs).sum().backward()
    expected = 4.0 * sum(range(1, size + 1)) / size
    torch.testing.assert_close(model.module.weight.grad, torch.full((1, 4), expected).double())


@pytest.mark.parametrize("size", [2, 3])
def test_gradient_accumulation(shared_pool, size: int) -> None:
    shared_pool(size).run(check_gradient_accumulation)
