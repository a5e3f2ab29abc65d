# SPDX-License-Identifier: Apache-2.0
"""Pipelines: stages on several ranks compute, and learn, what one process does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from reference import assert_close, weights
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, SplitPoint, pipeline
from torch.distributed.pipelining.schedules import (
    PipelineScheduleMulti,
    PipelineScheduleSingle,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
)

pytestmark = pytest.mark.lossy

WIDTH = 6
ROWS = 12
TURNS = 2
RATE = 0.1
ROUNDING = 1e-12


class Part(nn.Module):
    """One stage; stages hand on tensors of different widths."""

    def __init__(self, number: int) -> None:
        super().__init__()
        torch.manual_seed(100 + number)
        self.inner = nn.Linear(WIDTH + number, 20)
        self.outer = nn.Linear(20, WIDTH + number + 1)
        self.double()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.outer(torch.tanh(self.inner(inputs)))


def batch(turn: int, rows: int = ROWS) -> torch.Tensor:
    generator = torch.Generator().manual_seed(turn)
    return torch.randn(rows, WIDTH, generator=generator, dtype=torch.float64)


def targets(stages: int, rows: int = ROWS) -> torch.Tensor:
    return torch.ones(rows, WIDTH + stages, dtype=torch.float64)


def loss(outputs: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return (outputs - wanted).square().mean()


def run_alone(stages: int, turns: int) -> tuple[nn.Sequential, list[torch.Tensor], list[float]]:
    """The stages one after the other: trained, and each turn's outputs and losses."""
    parts = nn.Sequential(*(Part(number) for number in range(stages)))
    optimizer = torch.optim.SGD(parts.parameters(), lr=RATE)
    results, losses = [], []
    for turn in range(turns):
        optimizer.zero_grad()
        results.append(parts(batch(turn)))
        losses.append(loss(results[-1], targets(stages)))
        losses[-1].backward()
        optimizer.step()
    return parts, [one.detach() for one in results], [one.item() for one in losses]


def check_stages(
    schedule: PipelineScheduleSingle | PipelineScheduleMulti,
    mine: dict[int, PipelineStage],
    stages: int,
) -> None:
    """The weights after two turns, and what the last stage returns."""
    alone, expected, expected_losses = run_alone(stages, TURNS)
    optimizers = [torch.optim.SGD(one.submod.parameters(), lr=RATE) for one in mine.values()]
    for turn in range(TURNS):
        for optimizer in optimizers:
            optimizer.zero_grad()
        losses: list[torch.Tensor] = []
        inputs = [batch(turn)] if 0 in mine else []
        last = {"target": targets(stages), "losses": losses} if stages - 1 in mine else {}
        outputs = schedule.step(*inputs, **last)
        if last:
            assert_close(outputs, expected[turn], ROUNDING)
            assert_close(torch.stack(losses).mean().item(), expected_losses[turn], ROUNDING)
        for optimizer in optimizers:
            optimizer.step()
    for number, stage in mine.items():
        assert_close(weights(stage.submod), weights(alone[number]), ROUNDING)


def check_schedule(kind: Any, stages_per_rank: int, parts: int) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    stages = stages_per_rank * size
    if kind is ScheduleZBVZeroBubble:  # down the ranks and up again
        numbers = [rank, stages - 1 - rank]
    else:
        numbers = [rank + turn * size for turn in range(stages_per_rank)]
    mine = {
        number: PipelineStage(Part(number), number, stages, torch.device("cpu"))
        for number in numbers
    }
    chosen = list(mine.values()) if issubclass(kind, PipelineScheduleMulti) else mine[rank]
    schedule = kind(chosen, n_microbatches=parts, loss_fn=loss)
    check_stages(schedule, mine, stages)


SCHEDULES = [
    (ScheduleGPipe, 1),
    (Schedule1F1B, 1),
    (ScheduleLoopedBFS, 2),
    (ScheduleInterleaved1F1B, 2),
    (ScheduleInterleavedZeroBubble, 2),
    (ScheduleZBVZeroBubble, 2),
]


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(
    "kind, stages_per_rank", SCHEDULES, ids=lambda v: getattr(v, "__name__", v)
)
def test_schedule(shared_pool, size: int, kind: Any, stages_per_rank: int) -> None:
    shared_pool(size).run(check_schedule, kind, stages_per_rank, 2 * size)


def test_more_stages(shared_pool) -> None:
    """Twelve stages on four ranks, and more parts of a batch than ranks."""
    shared_pool(4).run(check_schedule, ScheduleInterleaved1F1B, 3, 12)


def check_with_replicas() -> None:
    """Two pipelines of two stages, each stage's replicas trained together by fully_shard."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "stages"))
    number, replica = mesh.get_local_rank("stages"), mesh.get_local_rank("replicas")
    part = fully_shard(Part(number), mesh=mesh["replicas"])
    group = mesh.get_group("stages")
    stage = PipelineStage(part, number, 2, torch.device("cpu"), group=group)
    schedule = ScheduleGPipe(stage, n_microbatches=3, loss_fn=loss)
    optimizer = torch.optim.SGD(part.parameters(), lr=RATE)
    half = slice(replica * ROWS // 2, (replica + 1) * ROWS // 2)
    for turn in range(TURNS):
        optimizer.zero_grad()
        if number == 0:
            schedule.step(batch(turn)[half])
        else:
            schedule.step(target=targets(2, ROWS // 2))
        optimizer.step()

    alone, _, _ = run_alone(2, TURNS)
    found = [parameter.full_tensor().detach() for parameter in part.parameters()]
    assert_close(found, weights(alone[number]), ROUNDING)


def test_with_replicas(shared_pool) -> None:
    shared_pool(4).run(check_with_replicas)


def check_traced() -> None:
    """A model that torch cuts into stages itself, with a value that skips one."""
    rank, size = dist.get_rank(), dist.get_world_size()

    class Skipping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(nn.Linear(WIDTH, WIDTH).double() for _ in range(size))

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            first = value = self.parts[0](inputs)
            for part in self.parts[1:]:
                value = torch.tanh(part(value))
            return value + first

    torch.manual_seed(7)
    model = Skipping()
    cut = {f"parts.{number}": SplitPoint.BEGINNING for number in range(1, size)}
    stage = pipeline(model, mb_args=(batch(0, 4),), split_spec=cut).build_stage(
        rank, torch.device("cpu")
    )
    outputs = ScheduleGPipe(stage, n_microbatches=3).step(*([batch(1)] if rank == 0 else []))
    if rank == size - 1:
        assert_close(outputs, model(batch(1)), ROUNDING)


def test_traced(shared_pool) -> None:
    shared_pool(3).run(check_traced)
