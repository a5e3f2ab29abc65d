# SPDX-License-Identifier: Apache-2.0
"""What a rank process of harness.Pool runs."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import time
import traceback
from datetime import timedelta
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from launch import OPTIONS
from program_server import enter_namespace

if TYPE_CHECKING:
    from harness import PoolSpec

torch.set_num_threads(1)


def main(rank: int, spec: PoolSpec, rendezvous: str, output: str, pipe: Connection) -> None:
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    for name in [name for name in os.environ if name.startswith(OPTIONS)]:
        del os.environ[name]
    os.environ.update(spec.environment)
    if networks := os.environ.get("TEST_NETWORKS"):  # namespaces, assigned to the ranks in turn
        names = networks.split(",")
        enter_network(names[rank % len(names)])
    pipe.send(_call(join_group, (rank, spec, rendezvous)))
    while True:
        try:
            message = pipe.recv()
        except EOFError:  # the test session is gone
            return
        if message is None:
            break
        pipe.send(_call(*message))
    if dist.is_initialized():
        dist.destroy_process_group()


def enter_network(name: str) -> None:
    with Path("/var/run/netns", name).open() as namespace:
        enter_namespace(namespace.fileno(), name)


def join_group(rank: int, spec: PoolSpec, rendezvous: str) -> None:
    if spec.backend == "rocecoll":
        import rocecoll  # noqa: F401  registers the backend
    dist.init_process_group(
        spec.backend,
        init_method=f"file://{rendezvous}",
        rank=rank,
        world_size=spec.size,
        timeout=timedelta(seconds=spec.timeout_s),
    )


def _call(function: Any, args: tuple[Any, ...]) -> tuple[Any, str | None, str, float]:
    started = time.monotonic()
    try:
        value, error, trace = function(*args), None, ""
    except Exception as raised:
        value, error = None, f"{type(raised).__name__}: {raised}"
        trace = "".join(traceback.format_exception(raised))
    return value, error, trace, time.monotonic() - started


def request_stacks(process: BaseProcess) -> bool:
    """Asks a process that hangs for the stacks of its threads, in its output file."""
    if process.is_alive() and process.pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGUSR1)
            return True
    return False
