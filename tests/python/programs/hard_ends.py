# SPDX-License-Identifier: Apache-2.0
"""Ranks that end without the interpreter's or anybody's knowledge, right after their last operation.

    python hard_ends.py BACKEND DIRECTORY OPERATION WAY JOBS

The last operation of all ranks is OPERATION, a function of this module; each then ends by WAY, another
one. A JSON list on standard output has the exit statuses by job and rank. By end_container each has a PID
namespace of its own, whose first process is killed; rank 0 stays outside, and exits.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.append(str(Path(__file__).resolve().parents[1]))

from places import CLONE_NEWPID, call

RANKS = 4
GONE = 1  # which rank the others miss
_to_keeper = -1  # a pipe; a byte ends the container


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


def missed(rank: int, others_ended: int) -> None:
    """The others need a rank that ends, and are told which. None ends before all have been told."""
    if rank == GONE:
        dist.barrier()
        return
    try:
        dist.barrier()  # which fails where another rank is in the next one already
        dist.barrier()
    except dist.DistBackendError as error:
        assert f"rank {GONE} (" in str(error), error
    else:
        raise AssertionError(f"the barrier did without rank {GONE}")
    store = dist.distributed_c10d._get_default_store()
    store.set(f"told {rank}", "")
    store.wait([f"told {other}" for other in range(RANKS) if other != GONE])


def exit_at_once() -> None:
    os._exit(0)


def destroy() -> None:
    dist.destroy_process_group()
    os._exit(0)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def execute() -> None:
    os.execv("/bin/true", ["true"])


def end_container() -> None:
    os.write(_to_keeper, b"e")
    while True:
        signal.pause()


def enter_container() -> None:
    """Continues in the second process of a PID namespace, while this one becomes its keeper."""
    global _to_keeper
    asked, _to_keeper = os.pipe()
    call("unshare", CLONE_NEWPID)
    first = os.fork()
    if first != 0:
        os.close(_to_keeper)
        if ends := os.read(asked, 1):
            os.kill(first, signal.SIGKILL)
        os.waitpid(first, 0)
        os._exit(0 if ends else 1)
    if os.fork() != 0:
        os.close(_to_keeper)
        os.wait()
        os._exit(1)


def become_rank(rank: int, others_ended: int, backend: str, store: str) -> None:
    operation, way = sys.argv[3:5]
    if way == "end_container" and rank == 0:
        way = "exit_at_once"
    elif way == "end_container":
        enter_container()
    dist.init_process_group(
        backend,
        init_method=f"file://{store}",
        rank=rank,
        world_size=RANKS,
        timeout=timedelta(minutes=2),
    )
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
