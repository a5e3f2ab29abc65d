# SPDX-License-Identifier: Apache-2.0
"""All-reduces before and after the last rank has changed the network, and says how long they took.

python narrow.py INIT_METHOD ELEMENTS [COMMAND...]

Each has ELEMENTS float32. Each command is one argument. Sums are checked. An all_reduce may take
OPERATION_LIMIT_S.
"""

from __future__ import annotations

import os
import shlex
import statistics
import subprocess
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import rocecoll  # noqa: F401  registers the backend

OPERATION_LIMIT_S = 10.0
ROUNDS = 10


def timed_rounds(phase: str, elements: int) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    times = []
    for i in range(ROUNDS):
        tensor = torch.full((elements,), float(rank + i))
        start = time.monotonic()
        dist.all_reduce(tensor)
        times.append(time.monotonic() - start)
        expected = size * (size - 1) / 2 + size * i
        assert bool((tensor == expected).all()), f"wrong sum in round {i} {phase}"
    median, worst = statistics.median(times), max(times)
    print(
        f"{phase}: first {times[0]:.3f} s, median {median:.3f} s, worst {worst:.3f} s", flush=True
    )


def main() -> None:
    init_method, elements, *commands = sys.argv[1:]
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(
        "rocecoll",
        init_method=init_method,
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=200),  # to begin with: a busy machine starts programs apart
    )
    dist.barrier()
    dist.group.WORLD.set_timeout(timedelta(seconds=OPERATION_LIMIT_S))
    timed_rounds("before", int(elements))
    for command in commands:
        if rank == size - 1:
            subprocess.run(shlex.split(command), check=True)
        timed_rounds(f"after {command}", int(elements))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
