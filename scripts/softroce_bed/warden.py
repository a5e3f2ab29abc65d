# SPDX-License-Identifier: Apache-2.0
"""Starts the processes of the guests, and makes sure that all of them end.

It is a program of its own (standard library only), so that guests end with their runner however that ends:
it holds the other end of the runner's pipe, and kills everything when that closes. It adopts orphans of
the guests' processes and ends only when no descendant is left.

    warden.py SPECIFICATION.json LIFELINE_FD RESULT_FD

The result is one line of JSON: for each guest [how it ended, exit status].
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
POLL_S = 0.02
AFTERWARDS_LIMIT_S = 30
FRAMES_AT_ONCE = 1000

EXITED, KILLED, LIMIT, ABANDONED = "exited", "killed", "limit", "abandoned"


def start(guest: dict[str, Any]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        guest["command"],
        env={**os.environ, **guest["environment"]},
        stdin=subprocess.DEVNULL,
        stdout=guest["console_fd"],
        stderr=guest["console_fd"],
        pass_fds=guest["fds"],
        start_new_session=True,
    )


def end(guest: subprocess.Popen[bytes]) -> None:
    """The guest's process and those it started; all of a guest's are in its session's group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(guest.pid, signal.SIGKILL)
    guest.wait()


def children() -> list[int]:
    found = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found += [int(pid) for pid in (task / "children").read_text().split()]
    return found


def end_orphans() -> None:
    """Orphans have become this process's children."""
    while True:
        for pid in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def drop_frames(wires: list[int]) -> None:
    """Reads and drops frames to a guest that has ended, like an unplugged cable.

    Otherwise its peer's network device would hold them for ever: User-Mode Linux keeps what its
    socket does not take, and rxe then waits for these packets before it destroys a queue pair.
    """
    for fd in wires:
        with socket.socket(fileno=os.dup(fd)) as wire, contextlib.suppress(BlockingIOError):
            for _ in range(FRAMES_AT_ONCE):
                wire.recv(1, socket.MSG_DONTWAIT)


def supervise(specification: dict[str, Any], lifeline: int) -> list[tuple[str, int]]:
    """Returns when every guest has ended, by itself or killed."""
    control = Path(specification["control"])
    guests: list[subprocess.Popen[bytes]] = []
    ends: dict[int, str] = {}
    wires: list[int] = []  # of guests that have ended
    deadline = time.monotonic() + specification["limit_s"]
    try:
        for guest in specification["guests"]:
            guests.append(start(guest))
            for fd in guest["fds"]:
                if fd != guest["wire_fd"]:
                    os.close(fd)
        while len(ends) < len(guests):
            ready = select.select([lifeline, *wires], [], [], POLL_S)[0]
            abandoned = lifeline in ready
            drop_frames([wire for wire in wires if wire in ready])
            late = time.monotonic() > deadline
            for number, process in enumerate(guests):
                if number in ends:
                    continue
                if process.poll() is not None:
                    ends[number] = EXITED
                elif abandoned or late:
                    ends[number] = ABANDONED if abandoned else LIMIT
                elif (control / f"kill.{number}").exists():
                    ends[number] = KILLED
                if number in ends:
                    end(process)
                    wire = specification["guests"][number]["wire_fd"]
                    wires += [] if wire is None else [wire]
    finally:
        for process in guests:
            end(process)
        end_orphans()
        for guest in specification["guests"]:
            if guest["afterwards"]:
                subprocess.run(guest["afterwards"], check=False, timeout=AFTERWARDS_LIMIT_S)
    return [(ends[number], process.returncode) for number, process in enumerate(guests)]


def main(path: str, lifeline: int, result: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The runner handles these signals. If they were ignored here, guests would inherit that.
        signal.signal(number, lambda *unused: None)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a guest's would be as large as its memory
    specification = json.loads(Path(path).read_text())
    ends = supervise(specification, lifeline)
    if any(how == ABANDONED for how, _ in ends):
        shutil.rmtree(specification["control"], ignore_errors=True)
    with contextlib.suppress(BrokenPipeError):
        os.write(result, json.dumps(ends).encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
