# SPDX-License-Identifier: Apache-2.0
"""Two ranks that fork with operations pending; children use the group, or end in several ways.

    python forking.py STORE_FILE

The parent prints "<what>: <exit status> <what the child wrote>" for each child, then completes what
was pending.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

import rocecoll

LIMIT_S = 200.0


def error_of(call: Callable[[], object]) -> str:
    try:
        call()
    except RuntimeError as error:
        return type(error).__name__ + (" forked" if "forked" in str(error) else f": {error}")
    return "nothing was raised"


def use_group(pending: dist.Work) -> str:
    world = dist.distributed_c10d._get_default_group()
    calls: dict[str, Callable[[], object]] = {
        "all_reduce": lambda: dist.all_reduce(torch.ones(1)),
        "sparse all_reduce": lambda: dist.all_reduce(torch.ones(1).to_sparse()),
        "send": lambda: dist.send(torch.ones(1), 1 - dist.get_rank()),
        "barrier": dist.barrier,
        "monitored barrier": lambda: world.monitored_barrier(timedelta(seconds=1)),
        "wait": pending.wait,
        "future": pending.get_future,
        "set_timeout": lambda: dist.distributed_c10d._set_pg_timeout(timedelta(seconds=1), world),
        "abort": world.abort,
        "handle": rocecoll.reconfigure_handle,
        "reconfigure": lambda: rocecoll.reconfigure(None, 1, ["of the parent"]),
    }
    c10d: Any = dist
    if hasattr(c10d, "_reconfigure"):  # from torch 2.14 on
        calls["c10d's handle"] = c10d._get_reconfigure_handle
        calls["c10d's reconfigure"] = lambda: c10d._reconfigure(1, ["of the parent"])
    errors = {name: error_of(call) for name, call in calls.items()}
    wrong = {name: error for name, error in errors.items() if error != "DistBackendError forked"}
    return f"wrong: {wrong}" if wrong else "all refused"


def run_child(what: str, pending: list[dist.Work], pipe: int) -> None:
    if what == "use the group":
        os.write(pipe, use_group(pending[0]).encode())
    elif what == "drop everything":
        pending.clear()
        dist.destroy_process_group()
        gc.collect()
        os.write(pipe, b"dropped")
    elif what == "begin anew":
        dist.destroy_process_group()
        file = f"file://{sys.argv[1]}.{os.getpid()}"
        dist.init_process_group("rocecoll", init_method=file, rank=0, world_size=1)
        sparse = torch.ones(1).to_sparse()
        dist.all_reduce(sparse)  # on a thread of the pool
        os.write(pipe, f"sum {sparse.to_dense().item()}".encode())
        dist.destroy_process_group()
    elif what == "leave at once":
        os._exit(0)
    sys.exit(0)


def fork(what: str, pending: list[dist.Work]) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        run_child(what, pending, writing)
    os.close(writing)
    text = b""
    while True:
        ready, _, _ = select.select([reading], [], [], LIMIT_S)
        if not ready:  # the child hangs
            os.kill(child, signal.SIGKILL)
        part = os.read(reading, 10_000)
        if not part:
            break
        text += part
    os.close(reading)
    _, status = os.waitpid(child, 0)
    print(f"{what}: {os.waitstatus_to_exitcode(status)} {text.decode()}", flush=True)


def main(store: str) -> None:
    rank = int(os.environ["RANK"])
    dist.init_process_group(
        "rocecoll",
        init_method=f"file://{store}",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=200),
    )
    dist.barrier()
    dist.all_reduce(torch.ones(1).to_sparse())  # leaves a thread of the pool idle
    received = torch.zeros(4)
    pending = [dist.irecv(received, 1 - rank)]
    for what in ("use the group", "begin anew", "leave at once", "just end", "drop everything"):
        fork(what, pending)
    dist.send(torch.full((4,), 3.0), 1 - rank)
    pending[0].wait()
    assert received.tolist() == [3.0] * 4
    dist.barrier()
    dist.destroy_process_group()
    print("done", flush=True)


main(sys.argv[1])
