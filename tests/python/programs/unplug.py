# SPDX-License-Identifier: Apache-2.0
"""All-reduces until an error, which it prints; the last rank takes its network away on the way.

python unplug.py INIT_METHOD INTERFACE [SECONDS]

With SECONDS the network comes back after that time, and there must be no error.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from datetime import timedelta

import torch
import torch.distributed as dist

import rocecoll  # noqa: F401  registers the backend

GOOD_ROUNDS = 20


def link(state: str, interface: str) -> None:
    subprocess.run(["ip", "link", "set", interface, state], check=True)


def main() -> None:
    init_method, interface = sys.argv[1:3]
    away_s = float(sys.argv[3]) if len(sys.argv) > 3 else None
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(
        "rocecoll",
        init_method=init_method,
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=200),
    )
    tensor = torch.zeros(100_000)
    for _ in range(GOOD_ROUNDS):
        dist.all_reduce(tensor)
    if rank == size - 1:
        link("down", interface)
        if away_s is not None:
            threading.Timer(away_s, link, ("up", interface)).start()
    try:
        dist.all_reduce(tensor)
        if away_s is not None:
            dist.barrier()
            print("all well again", flush=True)
            dist.destroy_process_group()
            return
    except dist.DistError as error:
        print(error, flush=True)
        if away_s is not None:
            os._exit(1)
        os._exit(0)  # the store is out of reach, too: torch would wait for it
    sys.exit("no error although the network is gone")


if __name__ == "__main__":
    main()
