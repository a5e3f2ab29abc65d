# SPDX-License-Identifier: Apache-2.0
"""Go on after a rank was killed: torchrun starts all of them anew, and they take the last checkpoint.

    torchrun --nproc-per-node 3 --max-restarts 1 examples/survive_a_kill.py checkpoint.pt

Halfway through, the last rank kills itself, once. The others get an error that names it, instead of
waiting for it; torchrun sees that ranks have failed and starts all again.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import typer
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH = 32


def allow_last_words() -> None:
    """torchrun ends the other ranks as soon as it sees that one has died: in ten seconds, then."""
    signal.signal(signal.SIGTERM, lambda *_: signal.alarm(10))


def is_to_die(step: int, steps: int) -> bool:
    first_life = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"  # torchrun counts
    return first_life and step == steps // 2 and dist.get_rank() == dist.get_world_size() - 1


def save(state: dict, path: Path) -> None:
    """Whole or not at all, also where this process is killed meanwhile."""
    unfinished = path.with_suffix(".unfinished")
    torch.save(state, unfinished)
    unfinished.rename(path)


def train(steps: int, checkpoint: Path) -> None:
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(WIDTH, WIDTH))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    first = 0
    if checkpoint.exists():  # all hosts must see it, or rank 0 has to send what is in it
        state = torch.load(checkpoint)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    if rank == 0:
        print(f"begins at step {first}", flush=True)
    for step in range(first, steps):
        if is_to_die(step, steps):
            os.kill(os.getpid(), signal.SIGKILL)
        # Samples depend on the step, not on how often the program was started.
        choice = torch.Generator().manual_seed(step * dist.get_world_size() + rank)
        inputs = torch.randn(16, WIDTH, generator=choice)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), inputs.flip(1))
        loss.backward()
        optimizer.step()
        if rank == 0:
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
            save({**state, "step": step + 1}, checkpoint)
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
        dist.barrier()  # nobody goes on before the step is saved


def main(checkpoint: Path, steps: int = 10) -> None:
    allow_last_words()
    torch.set_num_threads(1)
    dist.init_process_group("rocecoll")
    rank = dist.get_rank()
    try:
        train(steps, checkpoint)
    except dist.DistBackendError as error:
        print(f"rank {rank}: {error}", file=sys.stderr, flush=True)
        raise SystemExit(1) from None
    dist.destroy_process_group()


if __name__ == "__main__":
    typer.run(main)
