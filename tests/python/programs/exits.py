# SPDX-License-Identifier: Apache-2.0
"""Ways for a rank to end, each a whole process with the interpreter's own end.

    python exits.py BACKEND DIRECTORY WAY...

Every way gets three ranks. They are forked before the backend has started anything, so that torch
is loaded once; the output of each goes to DIRECTORY/<way><rank>, and a JSON object on standard
output has the exit statuses, by way and rank.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psutil
import torch
import torch.distributed as dist

RANKS = 3
kept: list[Any] = []


def meet(rank: int) -> None:
    """A barrier that is over for the others even if a rank's next step fails the group."""
    store = dist.distributed_c10d._get_default_store()
    store.set(f"here{rank}", "")
    store.wait([f"here{other}" for other in range(RANKS)])


def tell_process(rank: int) -> None:
    store = dist.distributed_c10d._get_default_store()
    store.set(f"process{rank}", str(os.getpid()))


def wait_for_end(rank: int) -> None:
    """Of that rank's process."""
    process = int(dist.distributed_c10d._get_default_store().get(f"process{rank}"))
    deadline = time.monotonic() + 200
    while psutil.pid_exists(process) and time.monotonic() < deadline:
        time.sleep(0.01)


def without_destroy(rank: int) -> None:
    """What many scripts do: the last line is the last step."""
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    assert tensor[0] == RANKS


def with_groups_and_works_alive(rank: int) -> None:
    """Objects in globals are dropped late, in any order."""
    for members in ([0, 1], [1, 2], [0, 1, 2]):
        kept.append(dist.new_group(members))
    tensor = torch.ones(1000)
    work = dist.all_reduce(tensor, async_op=True)
    future = work.get_future().then(lambda done: done.value()[0].sum())
    work.wait()
    kept.extend([tensor, work, future])


def with_operations_pending(rank: int) -> None:
    """All wait for what nobody sends."""
    tensor = torch.empty(10)
    kept.extend([tensor, dist.irecv(tensor, (rank + 1) % RANKS)])
    meet(rank)


def with_a_thread_waiting(rank: int) -> None:
    """A daemon thread sits in a receive when the interpreter ends."""
    work = dist.irecv(torch.empty(10), (rank + 1) % RANKS)
    threading.Thread(target=work.wait, daemon=True).start()
    meet(rank)


def with_a_thread_waiting_for_one_that_stays(rank: int) -> None:
    """The last rank ends when the others are no more; their threads wait for it until then."""
    last = RANKS - 1
    tell_process(rank)
    if rank < last:
        work = dist.irecv(torch.empty(10), last)
        threading.Thread(target=work.wait, daemon=True).start()
    meet(rank)
    for other in range(last if rank == last else 0):
        wait_for_end(other)


def beside_a_receive_from_any_rank(rank: int) -> None:
    """Rank 0 ends while rank 1 receives; what rank 2 sends then is received."""
    tell_process(rank)
    meet(rank)
    if rank == 1:
        print("received from rank", dist.recv(torch.empty(10)))
    if rank == 2:
        wait_for_end(0)
        dist.send(torch.ones(10), 1)


def destroy_with_operations_pending(rank: int) -> None:
    """The operations end with an error; a rank that waits for one that left is told so, too."""
    work = dist.irecv(torch.empty(10), (rank + 1) % RANKS)
    meet(rank)
    future = work.get_future()
    if rank == 0:
        dist.destroy_process_group()
    for wait in (work.wait, future.wait):
        try:
            wait()
            print("finished")
        except Exception as error:
            print(f"{type(error).__name__}: {error}".splitlines()[0])
    if rank > 0:
        dist.destroy_process_group()


def by_exception(rank: int) -> None:
    """Rank 1 fails in its own code while the others wait for it."""
    meet(rank)
    if rank == 1:
        raise ValueError("bad batch")
    try:
        dist.all_reduce(torch.ones(1000))
        print("finished")
    except dist.DistError as error:
        print(f"{type(error).__name__}: {error}".splitlines()[0])


WAYS: dict[str, Callable[[int], None]] = {
    way.__name__: way
    for way in (
        without_destroy,
        with_groups_and_works_alive,
        with_operations_pending,
        with_a_thread_waiting,
        with_a_thread_waiting_for_one_that_stays,
        beside_a_receive_from_any_rank,
        destroy_with_operations_pending,
        by_exception,
    )
}


def become_rank(way: str, rank: int, backend: str, directory: str) -> None:
    output = os.open(f"{directory}/{way}{rank}", os.O_WRONLY | os.O_CREAT, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    dist.init_process_group(
        backend,
        init_method=f"file://{directory}/store-{way}",
        rank=rank,
        world_size=RANKS,
        timeout=timedelta(minutes=10),
    )
    WAYS[way](rank)


def main() -> None:
    backend, directory, *ways = sys.argv[1:]
    if backend == "rocecoll":
        import rocecoll  # noqa: F401  registers the backend
    # What is loaded so far stays out of the children's last garbage collection: 0.2 s, not 0.6.
    gc.freeze()
    statuses: dict[str, list[int]] = {}
    for way in ways:
        children = []
        for rank in range(RANKS):
            child = os.fork()
            if child == 0:
                return become_rank(way, rank, backend, directory)
            children.append(child)
        statuses[way] = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    print(json.dumps(statuses))
    return None


if __name__ == "__main__":
    main()
