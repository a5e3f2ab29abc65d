# SPDX-License-Identifier: Apache-2.0
"""Ranks that end without the interpreter's or anybody's knowledge, right after their last operation.

    python hard_ends.py BACKEND DIRECTORY OPERATION WAY JOBS

The last operation of all ranks is OPERATION, a function of this module; each then ends by WAY, another
one. A JSON list on standard output has the exit statuses by job and rank.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

RANKS = 4


def barrier(rank: int, others_ended: int) -> None:
    dist.barrier()


def sums(rank: int, others_ended: int) -> None:
    tensor = torch.ones(10)
    dist.all_reduce(tensor)
    assert (tensor == RANKS).all()
    dist.barrier()


def send(rank: int, others_ended: int) -> None:
    """To rank 0, which receives once all others have ended."""
    if rank > 0:
        dist.send(torch.full((4,), float(rank)), 0)
        return
    os.read(others_ended, 1)
    for other in range(1, RANKS):
        tensor = torch.zeros(4)
        dist.recv(tensor, other)
        assert (tensor == other).all()


def warm_send(rank: int, others_ended: int) -> None:
    dist.barrier()
    send(rank, others_ended)


def exit_at_once() -> None:
    os._exit(0)


def destroy() -> None:
    dist.destroy_process_group()
    os._exit(0)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def execute() -> None:
    os.execv("/bin/true", ["true"])


def become_rank(rank: int, others_ended: int, backend: str, store: str) -> None:
    dist.init_process_group(
        backend,
        init_method=f"file://{store}",
        rank=rank,
        world_size=RANKS,
        timeout=timedelta(minutes=2),
    )
    operation, way = sys.argv[3:5]
    globals()[operation](rank, others_ended)
    globals()[way]()


def run_job(backend: str, store: str) -> list[int]:
    reads, writes = os.pipe()
    children = []
    for rank in range(RANKS):
        child = os.fork()
        if child == 0:
            os.close(writes)
            status = 1
            try:
                become_rank(rank, reads, backend, store)
            except Exception as error:
                print(f"rank {rank}: {error}", file=sys.stderr, flush=True)
            finally:
                os._exit(status)
        children.append(child)
    os.close(reads)
    statuses = [os.waitpid(child, 0)[1] for child in children[1:]]
    os.close(writes)  # which tells rank 0
    statuses.insert(0, os.waitpid(children[0], 0)[1])
    return [os.waitstatus_to_exitcode(status) for status in statuses]


def main() -> None:
    backend, directory, _, _, jobs = sys.argv[1:]
    if backend == "rocecoll":
        import rocecoll  # noqa: F401  registers the backend
    print(json.dumps([run_job(backend, f"{directory}/store{job}") for job in range(int(jobs))]))


if __name__ == "__main__":
    main()
