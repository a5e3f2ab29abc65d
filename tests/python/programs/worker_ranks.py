# SPDX-License-Identifier: Apache-2.0
"""Two ranks in forked processes of multiprocessing. One sends and ends while the other is stopped."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from multiprocessing.synchronize import Event

import torch
import torch.distributed as dist

import rocecoll  # noqa: F401

# Without waiting for the receiver the sender would be gone by then.
LONG_ENOUGH_S = 2


def receive(port: int, joined: Event) -> None:
    dist.init_process_group("rocecoll", f"tcp://127.0.0.1:{port}", rank=0, world_size=2)
    joined.wait()  # the Store is in this process
    os.kill(os.getpid(), signal.SIGSTOP)  # before it has a link to the sender
    value = torch.zeros(1)
    dist.recv(value, 1)
    assert value.item() == 7


def send(port: int, joined: Event, stopped: Event) -> None:
    dist.init_process_group("rocecoll", f"tcp://127.0.0.1:{port}", rank=1, world_size=2)
    joined.set()
    stopped.wait()
    dist.send(torch.full((1,), 7.0), 0)


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    joined, stopped = context.Event(), context.Event()
    port = int(sys.argv[1])
    receiver = context.Process(target=receive, args=(port, joined))
    sender = context.Process(target=send, args=(port, joined, stopped))
    receiver.start()
    sender.start()
    assert receiver.pid is not None
    os.waitpid(receiver.pid, os.WUNTRACED)
    stopped.set()
    sender.join(LONG_ENOUGH_S)
    os.kill(receiver.pid, signal.SIGCONT)
    receiver.join()
    sender.join()
    sys.exit(bool(receiver.exitcode or sender.exitcode))
