# SPDX-License-Identifier: Apache-2.0
"""Two ranks, the first of which may start no thread for a while.

python few_threads.py STORE_FILE
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist

LIMIT_S = 200.0
NOBODY = 65534


def allow_threads(allow: bool) -> None:
    """The limit is one of users, and root has none."""
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (hard if allow else 1, hard))


def is_refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except dist.DistBackendError as error:
        return "no thread for what follows the call" in str(error)
    return False


def complete(work: dist.Work | None) -> None:
    """Without waiting for it, which would release what it kept here."""
    assert work is not None
    deadline = time.monotonic() + LIMIT_S
    while not work.is_completed():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def main(store: str) -> None:
    rank = int(os.environ["RANK"])
    limit = timedelta(seconds=LIMIT_S)
    place = {"init_method": f"file://{store}", "rank": rank, "world_size": 2}
    dist.init_process_group("rocecoll", timeout=limit, **place)
    if rank == 1:
        for _ in range(2):
            dist.send(torch.ones(1), 0)
        dist.recv(torch.ones(1), 0)
        dist.send(torch.ones(1), 0)
    else:
        if os.getuid() == 0:
            os.setuid(NOBODY)
        allow_threads(False)
        received = [torch.zeros(1) for _ in range(3)]
        for tensor in received[:2]:  # nobody waits, so what they kept is left to a thread
            complete(dist.irecv(tensor, 1))
        work = dist.irecv(received[2], 1)
        assert work is not None
        assert is_refused(work.get_future)
        assert is_refused(lambda: dist.all_reduce(torch.ones(1).to_sparse()))
        allow_threads(True)
        future = work.get_future()
        dist.send(torch.ones(1), 1)
        assert future.wait()[0].item() == 1.0
        assert all(tensor.item() == 1.0 for tensor in received)
    sparse = torch.ones(1).to_sparse()
    dist.all_reduce(sparse)
    assert sparse.to_dense().item() == 2.0
    dist.destroy_process_group()
    print("done", flush=True)


main(sys.argv[1])
