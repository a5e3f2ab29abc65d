# SPDX-License-Identifier: Apache-2.0
"""Send smaller gradients: DistributedDataParallel with a communication hook, for slow links.

    torchrun --nproc-per-node 2 examples/compress_gradients.py

The same training three times: gradients as they are, as fp16 (half the bytes), and by PowerSGD, which
sends two thin matrices in place of each large one. Bytes are those of rank 0, by rocecoll's counters.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import typer
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import rocecoll

WIDTH = 512
BATCH = 32  # of each rank
FULL_STEPS = 2  # that PowerSGD sends as they are, at least 2


@dataclass
class Training:
    loss: float
    bytes_a_step: int
    ms_a_step: float


def bytes_sent() -> int:
    """By this rank so far, over the network and through the memory that it shares with others."""
    stats = rocecoll.stats()
    return stats["bytes_sent"] + stats["shared_bytes_sent"]


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)
    )


def use_as_is(model: DistributedDataParallel) -> None:
    pass


def use_fp16(model: DistributedDataParallel) -> None:
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)


def use_power_sgd(model: DistributedDataParallel) -> None:
    state = powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=4, start_powerSGD_iter=FULL_STEPS
    )
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def train(steps: int, use_hook: Callable[[DistributedDataParallel], None]) -> Training:
    # One bucket: PowerSGD calls from callbacks, which have an order only within a bucket.
    model = DistributedDataParallel(make_model(), bucket_cap_mb=100)
    use_hook(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    choice = torch.Generator().manual_seed(dist.get_rank())

    def step() -> torch.Tensor:
        inputs = torch.randn(BATCH, WIDTH, generator=choice)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), inputs[:, :1])
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(FULL_STEPS):
        step()
    sent, started = bytes_sent(), time.perf_counter()
    losses = [step() for _ in range(steps)]
    dist.barrier()
    return Training(
        torch.stack(losses[-10:]).mean().item(),
        (bytes_sent() - sent) // steps,
        (time.perf_counter() - started) / steps * 1e3,
    )


def main(steps: int = 100) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("rocecoll")
    hooks: dict[str, Any] = {"as is": use_as_is, "fp16": use_fp16, "PowerSGD": use_power_sgd}
    for name, use_hook in hooks.items():
        done = train(steps, use_hook)
        if dist.get_rank() == 0:
            print(
                f"{name:8}  {done.bytes_a_step:9,} bytes and {done.ms_a_step:.1f} ms a step, "
                f"loss {done.loss:.3f}",
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    typer.run(main)
