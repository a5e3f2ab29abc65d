# SPDX-License-Identifier: Apache-2.0
"""Two ranks; rank 1 is killed while a process that it has forked lives on.

    python killed_parent.py STORE_FILE {fork,loader} DIRECTORY

Rank 0 waits for a message of rank 1 and prints the error. The child writes its process id to
DIRECTORY/child, lets go of the output, and ends by itself long after the test has ended it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

import rocecoll  # noqa: F401

LIFE_S = 600


def stay(directory: Path) -> None:
    """The child's life."""
    signal.alarm(LIFE_S)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    (directory / "unfinished").write_text(str(os.getpid()))
    (directory / "unfinished").rename(directory / "child")
    while True:
        signal.pause()


class Stuck(Dataset[int]):
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        if index > 0:
            stay(self.directory)
        return index


def main() -> None:
    store, way, directory = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    rank = int(os.environ["RANK"])
    dist.init_process_group(
        "rocecoll",
        init_method=f"file://{store}",
        rank=rank,
        world_size=2,
        timeout=timedelta(minutes=30),
    )
    dist.barrier()
    if rank == 0:
        try:
            dist.recv(torch.empty(1), 1)
        except RuntimeError as error:
            print(error, flush=True)
        os._exit(0)
    if way == "loader":
        items = iter(DataLoader(Stuck(directory), num_workers=1, multiprocessing_context="fork"))
        next(items)
    elif os.fork() == 0:
        stay(directory)
    while not (directory / "child").exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


main()
