# SPDX-License-Identifier: Apache-2.0
"""Two ranks; a C call of rank 0 keeps Python's lock for longer than the peers' patience.

    python holds_python.py STORE_FILE DIRECTORY

While it does, an operation completes that holds the last reference to its tensor.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import rocecoll  # noqa: F401

HELD_S = 12


def main() -> None:
    store, called = sys.argv[1], Path(sys.argv[2]) / "called"
    rank = int(os.environ["RANK"])
    dist.init_process_group(
        "rocecoll",
        init_method=f"file://{store}",
        rank=rank,
        world_size=2,
        timeout=timedelta(minutes=2),
    )
    dist.barrier()
    if rank == 0:
        usleep = ctypes.PyDLL(None).usleep  # unlike CDLL: keeps the lock
        tensor = torch.ones(1000)
        dist.all_reduce(tensor, async_op=True)
        del tensor
        called.touch()
        usleep(HELD_S * 1_000_000)
        dist.send(torch.ones(1), 1)
    else:
        while not called.exists():
            time.sleep(0.01)
        time.sleep(0.5)  # so that rank 0 is in its call; should it not be, less is tested
        dist.all_reduce(torch.ones(1000))
        dist.recv(torch.empty(1), 0)
    dist.barrier()
    dist.destroy_process_group()
    print("done", flush=True)


main()
