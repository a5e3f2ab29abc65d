# SPDX-License-Identifier: Apache-2.0
"""Replace a rank that was killed while the others keep their processes and what they have learnt.

    python examples/rejoin.py --ranks 3

The program starts the ranks, as an agent on each host would, and starts one again that dies. It hands
the handles of all ranks round, over a pipe to each; the ranks need no Store. A rank that comes anew gets
model and optimizer from one that has them, over the group: there is no checkpoint and no disk.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import time
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from typing import Annotated

import torch
import torch.distributed as dist
import typer
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import rocecoll

LIMIT = timedelta(seconds=60)


class Training:
    """A model of two layers, SGD with momentum, and how many steps they have made."""

    def __init__(self, width: int) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.momentum = torch.zeros_like(parameters_to_vector(self.model.parameters()))
        self.step = 0

    def take_over(self) -> None:
        """All ranks go on from the one that is furthest: a step may have reached some of them only."""
        steps = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
        dist.all_gather(steps, torch.tensor([self.step]))
        furthest = max(range(len(steps)), key=lambda rank: steps[rank].item())
        weights = parameters_to_vector(self.model.parameters()).detach()
        for state in (weights, self.momentum):
            dist.broadcast(state, furthest)
        vector_to_parameters(weights, self.model.parameters())
        self.step = int(steps[furthest].item())
        rocecoll.check_equal([weights, self.momentum])

    def learn(self) -> float:
        """One step on the samples of this step and rank; the mean loss of all ranks."""
        rank, size = dist.get_rank(), dist.get_world_size()
        width = self.model[0].in_features
        choice = torch.Generator().manual_seed(self.step * size + rank)
        inputs = torch.randn(16, width, generator=choice)
        self.model.zero_grad()
        loss = nn.functional.mse_loss(self.model(inputs), inputs.flip(1))
        loss.backward()
        gradients = torch.cat([one.grad.reshape(-1) for one in self.model.parameters()])
        told = torch.cat([gradients, loss.detach().reshape(1)])
        dist.all_reduce(told)  # what fails here has changed nothing yet
        told /= size
        self.momentum.mul_(0.9).add_(told[:-1])
        weights = parameters_to_vector(self.model.parameters()).detach() - 0.1 * self.momentum
        vector_to_parameters(weights, self.model.parameters())
        self.step += 1
        return told[-1].item()


def run_rank(pipe: Connection, width: int, steps: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("rocecoll", store=dist.HashStore(), rank=0, world_size=1, timeout=LIMIT)
    training = Training(width)
    while True:
        pipe.send(rocecoll.reconfigure_handle())
        epoch, handles = pipe.recv()
        try:
            rocecoll.reconfigure(None, epoch, handles, LIMIT)
            training.take_over()
            while training.step < steps:
                loss = training.learn()
                if dist.get_rank() == 0:
                    pipe.send((training.step, loss))
            dist.barrier()  # nobody ends before all have ended
            break
        except dist.DistBackendError as error:
            print(f"rank {dist.get_rank()} goes on without: {str(error)[:100]}", flush=True)
    pipe.send(None)
    dist.destroy_process_group()


def main(
    ranks: Annotated[int, typer.Option(min=2)] = 3,
    steps: Annotated[int, typer.Option(min=1)] = 20,
    kill: Annotated[list[int] | None, typer.Option(help="after these steps: the last rank")] = None,
    width: int = 64,
) -> None:
    context = multiprocessing.get_context("forkserver")  # which imports torch once, for all ranks
    context.set_forkserver_preload(["torch.distributed", "rocecoll.elastic"])

    def start() -> tuple[Connection, multiprocessing.process.BaseProcess]:
        ours, theirs = context.Pipe()
        process = context.Process(target=run_rank, args=(theirs, width, steps))
        process.start()
        theirs.close()
        return ours, process

    kills = sorted([steps // 2] if kill is None else kill, reverse=True)
    ranks_now = [start() for _ in range(ranks)]
    handles: dict[int, str] = {}
    epochs = itertools.count(1)
    killed_at = None
    running = set(range(ranks))
    while running:
        pipes = {ranks_now[rank][0]: rank for rank in running}
        for pipe in wait(list(pipes)):
            rank = pipes[pipe]
            try:
                said = pipe.recv()
            except EOFError:  # it has died
                ranks_now[rank][1].join()
                ranks_now[rank] = start()
                handles.pop(rank, None)
                continue
            if said is None:
                running.discard(rank)
            elif isinstance(said, str):
                handles[rank] = said
            else:
                step, loss = said
                again = (
                    f" ({time.monotonic() - killed_at:.1f} s after the kill)" if killed_at else ""
                )
                print(f"step {step}: loss {loss:.4f}{again}", flush=True)
                killed_at = None
                if kills and step >= kills[-1]:
                    kills.pop()
                    killed_at = time.monotonic()
                    os.kill(ranks_now[-1][1].pid, signal.SIGKILL)
        if len(handles) == ranks:
            epoch = next(epochs)
            for pipe, _ in ranks_now:
                pipe.send((epoch, [handles[one] for one in range(ranks)]))
            handles.clear()
    for _, process in ranks_now:
        process.join()


if __name__ == "__main__":
    typer.run(main)
