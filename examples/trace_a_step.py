# SPDX-License-Identifier: Apache-2.0
"""See whether gradients travel while others are still being computed: the trace of a step of DDP.

    torchrun --nproc-per-node 2 examples/trace_a_step.py
    rocecoll trace step.*.json --merge step.json

DistributedDataParallel sends a bucket of gradients as soon as the backward pass has filled it. Rank 0
draws when that was; step.json shows all ranks in https://ui.perfetto.dev.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch
import torch.distributed as dist
import typer
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import rocecoll

WIDTH, LAYERS = 512, 6
BATCH = 256
BUCKET_MB = 2  # two layers
COLUMNS = 48


def make_model() -> DistributedDataParallel:
    torch.manual_seed(0)
    layers = [part for _ in range(LAYERS) for part in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    return DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=BUCKET_MB)


def step(model: nn.Module, inputs: torch.Tensor) -> int:
    """When its backward pass began, in ns as the trace counts them."""
    model.zero_grad()
    loss = model(inputs).square().mean()
    begin_ns = time.time_ns()
    loss.backward()
    return begin_ns


def draw(name: str, begin_ns: int, end_ns: int, whole_ns: tuple[int, int]) -> None:
    """A line with the time between two moments, as a part of the whole."""
    scale = COLUMNS / (whole_ns[1] - whole_ns[0])
    left, right = (round((moment - whole_ns[0]) * scale) for moment in (begin_ns, end_ns))
    bar = " " * left + "=" * max(1, right - left)
    print(f"{name:10} |{bar:{COLUMNS}}| {(end_ns - begin_ns) / 1e6:5.1f} ms")


def show(calls: list, begin_ns: int) -> None:
    computed_ns = calls[-1]["enqueued_ns"]  # the last gradient fills the last bucket
    whole_ns = (begin_ns, max(call["ended_ns"] for call in calls))
    draw("gradients", begin_ns, computed_ns, whole_ns)
    for call in calls:
        name = call["op"].removeprefix("rocecoll:")
        draw(name, call["enqueued_ns"], call["ended_ns"], whole_ns)
    hidden_ns = sum(min(call["ended_ns"], computed_ns) - call["enqueued_ns"] for call in calls)
    taken_ns = sum(call["ended_ns"] - call["enqueued_ns"] for call in calls)
    print(f"{hidden_ns / taken_ns:.0%} of the communication ran beside the computation", flush=True)


def main(path: Path = Path("step.json")) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("rocecoll")
    model, inputs = make_model(), torch.randn(BATCH, WIDTH)
    for _ in range(3):  # DDP puts its buckets into their order in the first steps
        step(model, inputs)
    dist.barrier()
    with rocecoll.trace(path) as trace:  # ROCECOLL_TRACE=step.json would do, for a whole program
        begin_ns = step(model, inputs)
    if dist.get_rank() == 0:
        show(trace.calls, begin_ns)
    dist.destroy_process_group()


if __name__ == "__main__":
    typer.run(main)
