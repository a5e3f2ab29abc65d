# SPDX-License-Identifier: Apache-2.0
"""A job that torchrun restarts: ten steps from the last checkpoint on; once, the last rank dies.

python restart.py BACKEND DIRECTORY
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist

STEPS = 10
FATAL_STEP = 5


def main() -> None:
    backend, directory = sys.argv[1], Path(sys.argv[2])
    if backend == "rocecoll":
        import rocecoll  # noqa: F401  registers the backend
    dist.init_process_group(backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    state = torch.zeros(2, dtype=torch.int64)  # steps done, sum
    saved, died = directory / "checkpoint", directory / "died"
    if rank == 0 and saved.exists():
        state = torch.load(saved)
    dist.broadcast(state, 0)
    first = int(state[0])
    for step in range(first, STEPS):
        if step == FATAL_STEP and rank == size - 1 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        contribution = torch.tensor(step * (rank + 1))
        dist.all_reduce(contribution)
        state += torch.stack([torch.tensor(1), contribution])
        if rank == 0:
            torch.save(state, directory / "unfinished")
            (directory / "unfinished").rename(saved)
        dist.barrier()  # nobody dies before the step is saved
    os.write(1, f"rank {rank} of {size}: steps {first} to {STEPS}, sum {state[1]}\n".encode())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
