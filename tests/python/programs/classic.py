# SPDX-License-Identifier: Apache-2.0
"""The programs of every tutorial, in one script; started by torchrun, mpirun or by hand.

    python classic.py PROGRAM [--backend B] [--init-method URL]

Rank and size come from torchrun's variables, or from Open MPI's.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist


def send_recv(rank: int, size: int) -> None:
    """A token goes round and every rank adds its number."""
    token = torch.zeros(1)
    if rank == 0:
        dist.send(token, 1 % size)
        dist.recv(token, size - 1)
        assert token.item() == sum(range(size))
    else:
        dist.recv(token, rank - 1)
        token += rank
        dist.send(token, (rank + 1) % size)


def broadcast(rank: int, size: int) -> None:
    tensor = torch.arange(5.0) if rank == 0 else torch.zeros(5)
    dist.broadcast(tensor, src=0)
    assert tensor.tolist() == [0, 1, 2, 3, 4]


def scatter(rank: int, size: int) -> None:
    output = torch.zeros(2)
    pieces = [torch.full((2,), float(target)) for target in range(size)] if rank == 0 else None
    dist.scatter(output, pieces, src=0)
    assert output.tolist() == [rank, rank]


def gather(rank: int, size: int) -> None:
    outputs = [torch.zeros(1) for _ in range(size)] if rank == 0 else None
    dist.gather(torch.tensor([float(rank)]), outputs, dst=0)
    if outputs is not None:
        assert [output.item() for output in outputs] == list(range(size))


def all_gather(rank: int, size: int) -> None:
    outputs = [torch.zeros(1) for _ in range(size)]
    dist.all_gather(outputs, torch.tensor([float(rank)]))
    assert [output.item() for output in outputs] == list(range(size))


def reduce(rank: int, size: int) -> None:
    tensor = torch.ones(3)
    dist.reduce(tensor, dst=0, op=dist.ReduceOp.SUM)
    if rank == 0:
        assert tensor.tolist() == [size] * 3


def all_reduce_in_group(rank: int, size: int) -> None:
    members = list(range(0, size, 2))
    group = dist.new_group(members)
    tensor = torch.ones(1)
    if rank in members:
        dist.all_reduce(tensor, op=dist.ReduceOp.SUM, group=group)
    assert tensor.item() == (len(members) if rank in members else 1)


PROGRAMS: dict[str, Callable[[int, int], None]] = {
    program.__name__: program
    for program in (send_recv, broadcast, scatter, gather, all_gather, reduce, all_reduce_in_group)
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=[*PROGRAMS, "all"])
    parser.add_argument("--backend", default="rocecoll")
    parser.add_argument("--init-method", default="env://")
    arguments = parser.parse_args()
    if arguments.backend == "rocecoll":
        import rocecoll  # noqa: F401  registers the backend

    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("RANK", "-1")))
    size = int(os.environ.get("OMPI_COMM_WORLD_SIZE", os.environ.get("WORLD_SIZE", "-1")))
    dist.init_process_group(
        arguments.backend,
        init_method=arguments.init_method,
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=200),
    )
    for name, program in PROGRAMS.items():
        if arguments.program in (name, "all"):
            program(rank, size)
            # One write, so that lines of different ranks do not mix.
            os.write(1, f"{name} ok on {rank} of {size}\n".encode())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
