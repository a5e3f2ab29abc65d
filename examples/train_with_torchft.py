# SPDX-License-Identifier: Apache-2.0
"""Train replicas with torchft over groups of rocecoll; one is killed, the others go on, it comes back.

    python examples/train_with_torchft.py --replicas 3

torchft's lighthouse decides which replicas take part in a step, and its manager has the group made
anew whenever they change. ProcessGroupRocecoll is all that a program needs to use rocecoll for it. The
replicas share the samples of a step, however many they are, so the losses do not depend on the kills.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier
from typing import Annotated

import torch
import torch.distributed as dist
import typer
from torch import nn
from torch._C._distributed_c10d import _DistributedBackendOptions
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torchft import Manager, Optimizer, ProcessGroupGloo
from torchft.coordination import LighthouseServer
from torchft.process_group import ProcessGroupWrapper

from rocecoll.backend import create_backend

WIDTH = 64
SAMPLES = 48  # of a step; divisible by 2, 3, 4 and 6 replicas


class ProcessGroupRocecoll(ProcessGroupWrapper):
    """For torchft.Manager. Aborting a group leaves nothing behind, so it needs no process of its own."""

    def _create_pg(self, store: dist.Store, rank: int, world_size: int) -> dist.ProcessGroup:
        told = _DistributedBackendOptions()
        told.store, told.group_rank, told.group_size = store, rank, world_size
        told.timeout, told.group_id = self._timeout, f"torchft:{self._quorum_id}"
        told.global_ranks_in_group = self._global_ranks or []  # by which messages name the replicas
        backend = create_backend(told, None)
        group = dist.ProcessGroup(store, rank, world_size)
        group._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
        for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
            group._register_backend(
                torch.device(device), dist.ProcessGroup.BackendType.CUSTOM, backend
            )
        return group

    def getBackendName(self) -> str:  # noqa: N802
        return "torchft-rocecoll"


GROUPS = {"rocecoll": ProcessGroupRocecoll, "gloo": ProcessGroupGloo}


def run_replica(
    number: int,
    backend: str,
    lighthouse: str,
    least: int,
    steps: int,
    pause: float,
    limit: timedelta,
    pipe: Connection,
    beginning: Barrier | None,
) -> None:
    """Sends (step, loss, number of replicas) for each step, or (step, what has failed, 0)."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    logging.disable(logging.ERROR)  # torchft logs each failure with its stack; the caller is told
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def load(state: dict[str, dict[str, torch.Tensor]]) -> None:
        model.load_state_dict(state["model"])
        inner.load_state_dict(state["optimizer"])

    manager = Manager(
        pg=GROUPS[backend](timeout=limit),
        load_state_dict=load,
        state_dict=lambda: {"model": model.state_dict(), "optimizer": inner.state_dict()},
        min_replica_size=least,
        use_async_quorum=False,
        timeout=limit,
        max_retries=10,
        rank=0,
        world_size=1,
        store_addr="localhost",
        store_port=store.port,
        lighthouse_addr=lighthouse,
        replica_id=f"replica_{number}",
        hostname="localhost",
    )
    optimizer = Optimizer(manager, inner)
    if beginning:  # from here on the lighthouse knows all of them, and waits for them
        beginning.wait()
    while manager.current_step() < steps:
        optimizer.zero_grad()  # the quorum of this step, and the state of the others if we lack it
        step, replicas = manager.current_step(), manager.num_participants()
        time.sleep(pause)
        samples = torch.randn(SAMPLES, WIDTH, generator=torch.Generator().manual_seed(step))
        own = samples[manager.participating_rank() :: replicas]
        loss = nn.functional.mse_loss(model(own), own.flip(1))
        loss.backward()
        gradients = [one.grad for one in model.parameters()]
        told = torch.cat([parameters_to_vector(gradients), loss.detach().reshape(1)])
        # Not by torchft's DDP, which ends when a call has failed.
        manager.allreduce(told).wait()
        vector_to_parameters(told[:-1], gradients)
        optimizer.step()  # does nothing if a call of this step has failed
        if manager.current_step() > step:
            pipe.send((step + 1, told[-1].item(), replicas))
        else:
            failure = manager.errored()
            pipe.send((step + 1, str(failure and failure.original_exception), 0))
    pipe.send(None)
    pipe.recv()  # until all have ended, as each serves the others its state
    manager.shutdown(wait=False)


class Job:
    """Starts the replicas, as an agent on each host would, and hears what they send."""

    def __init__(self, count: int, *arguments: object) -> None:
        self._context = multiprocessing.get_context(
            "forkserver"
        )  # which imports torch once, for all
        self._context.set_forkserver_preload(["torch.distributed", "torchft", "rocecoll.backend"])
        self._arguments = arguments
        self._processes: dict[int, BaseProcess] = {}
        self._pipes: dict[int, Connection] = {}
        self._waiting: set[int] = set()  # have not made a step yet
        self._done: set[int] = set()
        self._beginning = self._context.Barrier(count)  # ends with this object
        for number in range(count):
            self.start(number, self._beginning)

    def start(self, number: int, beginning: Barrier | None = None) -> None:
        self._pipes[number], theirs = self._context.Pipe()
        process = self._context.Process(
            target=run_replica, args=(number, *self._arguments, theirs, beginning)
        )
        process.start()
        theirs.close()
        self._processes[number] = process
        self._waiting.add(number)

    def kill(self, number: int) -> None:
        os.kill(self._processes[number].pid, signal.SIGKILL)
        self._processes.pop(number).join()
        self._pipes.pop(number).close()

    def messages(self) -> Iterator[tuple[int, tuple[int, float | str, int]]]:
        """With the number of the replica; ends when all that have made a step have ended."""
        while running := self._pipes.keys() - self._done - (self._waiting if self._done else set()):
            numbers = {self._pipes[number]: number for number in running}
            for pipe in wait(list(numbers)):
                number = numbers[pipe]
                if self._pipes.get(number) is not pipe:
                    continue  # was killed since
                message = pipe.recv()
                self._waiting.discard(number)
                if message is None:
                    self._done.add(number)
                else:
                    yield number, message

    def end(self) -> None:
        for number, process in self._processes.items():
            if number in self._done:
                self._pipes[number].send(None)
            else:
                process.kill()
            process.join()


def main(
    replicas: Annotated[int, typer.Option(min=3)] = 3,
    min_replicas: Annotated[int, typer.Option(help="without which no step is made")] = 2,
    steps: Annotated[int, typer.Option(min=1)] = 40,
    kill: Annotated[
        list[int] | None, typer.Option(help="after these steps: the last replica")
    ] = None,
    backend: Annotated[str, typer.Option(help="or gloo, for comparison")] = "rocecoll",
    pause: Annotated[float, typer.Option(help="seconds that a step computes")] = 0.2,
    timeout: Annotated[float, typer.Option(help="seconds for a call")] = 60,
    heartbeat_timeout_ms: Annotated[
        int, typer.Option(help="after which the lighthouse takes a replica for dead")
    ] = 1000,
) -> None:
    lighthouse = LighthouseServer(
        bind="[::]:0",
        min_replicas=min_replicas,
        join_timeout_ms=60_000,  # how long those that are there wait for one that lives and is late
        quorum_tick_ms=10,
        heartbeat_timeout_ms=heartbeat_timeout_ms,
    )
    job = Job(
        replicas,
        backend,
        lighthouse.address(),
        min_replicas,
        steps,
        pause,
        timedelta(seconds=timeout),
    )
    kills = sorted([5] if kill is None else kill, reverse=True)
    last, killed_at = 0, None
    for number, (step, result, together) in job.messages():
        if isinstance(result, str):
            after = f" after {time.monotonic() - killed_at:.3f} s" if killed_at else ""
            print(f"replica {number} repeats step {step}{after}: {result[:150]}", flush=True)
        elif step > last:
            last, line = step, f"step {step}: loss {result:.4f}, {together} replicas"
            if killed_at and (together < replicas or min_replicas == replicas):
                line += f" ({time.monotonic() - killed_at:.3f} s after the kill)"
                killed_at = None
                if min_replicas < replicas:
                    job.start(replicas - 1)
            print(line, flush=True)
            if kills and together == replicas and step >= kills[-1]:
                kills.pop()
                time.sleep(pause / 2)  # it dies while it computes
                job.kill(replicas - 1)
                killed_at = time.monotonic()
                if min_replicas == replicas:
                    job.start(replicas - 1)
    job.end()
    lighthouse.shutdown()


if __name__ == "__main__":
    typer.run(main)
