# SPDX-License-Identifier: Apache-2.0
"""Pairs of ranks that may open only FILES more files, and already have a store.

    python few_files.py DIRECTORY LATE FILES...

FILES is a number, or one for each rank, separated by a comma. For each FILES two ranks are forked,
before rocecoll has started anything. With LATE 0 they make their first group under this limit, with
LATE 1 a second one. Their outputs go to DIRECTORY, and a JSON object on standard output has the
exit statuses and the outputs, by FILES and rank.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import socket
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import rocecoll.flight_recorder
import rocecoll.torch_hooks  # noqa: F401  what the first group would load

RANKS = 2
PATIENCE = timedelta(seconds=100)


def allow_more_files(count: int) -> None:
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(count + 1)]
    for descriptor in opened:
        os.close(descriptor)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(opened), hard))


def exchange(group: dist.ProcessGroup | None) -> None:
    tensor = torch.ones(300_000)
    dist.all_reduce(tensor, group=group)
    assert bool((tensor == RANKS).all())


def be_rank(rank: int, late: bool, files: int, port: int) -> None:
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=PATIENCE)
    store.set(f"here{rank}", "")
    store.wait([f"here{other}" for other in range(RANKS)])  # its connections are open
    if not late:
        allow_more_files(files)
    dist.init_process_group("rocecoll", store=store, rank=rank, world_size=RANKS, timeout=PATIENCE)
    exchange(None)
    if late:
        allow_more_files(files)
        exchange(dist.new_group(range(RANKS)))
    print("works")


def run_ranks(outputs: list[Path], late: bool, files: list[int]) -> list[int]:
    """Their exit statuses. The store's server has a thread, and begins when they are there."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    children = []
    for rank, output in enumerate(outputs):
        child = os.fork()
        if child == 0:
            listener.close()
            descriptor = os.open(output, os.O_WRONLY | os.O_CREAT, 0o644)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            os.close(descriptor)
            be_rank(rank, late, files[rank % len(files)], port)
            sys.exit(0)
        children.append(child)
    server = dist.TCPStore(
        "127.0.0.1",
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    del server  # before the next ranks are forked
    return statuses


def main() -> None:
    directory, late = Path(sys.argv[1]), sys.argv[2] == "1"
    gc.freeze()  # what is loaded so far stays out of the children's last garbage collection
    ends: dict[str, list[tuple[int, str]]] = {}
    for files in sys.argv[3:]:
        outputs = [directory / f"{files}-{rank}" for rank in range(RANKS)]
        statuses = run_ranks(outputs, late, [int(count) for count in files.split(",")])
        ends[files] = [
            (status, output.read_text()) for status, output in zip(statuses, outputs, strict=True)
        ]
    print(json.dumps(ends))


if __name__ == "__main__":
    main()
