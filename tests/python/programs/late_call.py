# SPDX-License-Identifier: Apache-2.0
"""The last rank makes a call when its group has failed for it and all ranks have dumped.

python late_call.py DIRECTORY

Then all go on with a new group, and end in good order. Each rank prints the digest of its dump as it
was before that call.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import rocecoll  # noqa: F401  registers the backend

PATIENCE_S = 200


def join(store: str) -> tuple[int, int]:
    """Rank and size."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(
        "rocecoll",
        init_method=f"file://{store}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=PATIENCE_S),
    )
    return rank, size


def complete(dump: Path) -> bool:
    try:
        pickle.loads(dump.read_bytes())
    except (FileNotFoundError, EOFError, pickle.UnpicklingError):
        return False
    return True


def fail(rank: int, last: int, dumps: list[Path]) -> None:
    dist.broadcast(torch.zeros(3), 0)
    dist.group.WORLD.set_timeout(timedelta(seconds=2))
    try:
        if rank != last:
            dist.all_reduce(torch.zeros(1000))
    except dist.DistBackendError:
        pass
    deadline = time.monotonic() + PATIENCE_S
    while not all(map(complete, dumps)):
        assert time.monotonic() < deadline, "not all ranks have dumped"
        time.sleep(0.05)
    print("digest", hashlib.sha256(dumps[rank].read_bytes()).hexdigest())
    try:
        if rank == last:
            dist.all_reduce(torch.zeros(1000))
    except dist.DistBackendError:
        pass


def main() -> None:
    directory = sys.argv[1]
    rank, size = join(f"{directory}/first")
    prefix = os.environ["ROCECOLL_FLIGHT_RECORDER"]
    fail(rank, size - 1, [Path(f"{prefix}{other}") for other in range(size)])
    dist.destroy_process_group()
    join(f"{directory}/second")
    tensor = torch.ones(10)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [float(size)] * 10
    dist.barrier()  # nobody ends while another still reads dumps
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
