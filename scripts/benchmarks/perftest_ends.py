# SPDX-License-Identifier: Apache-2.0
"""The two processes of a program of perftest on the two devices of a guest: on a core each, and ended."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rocecoll.bench import machine

PORT = 18515
LIMIT_S = 60.0
LOOK_S = 0.01

Ends = list[subprocess.Popen[str]]


def command(
    program: Sequence[str], device: str, gid_index: str, size_bytes: int, messages: int
) -> list[str]:
    options = ["-d", device, "-x", gid_index, "-p", str(PORT), "-F"]
    return [*program, *options, "-s", str(size_bytes), "-n", str(messages)]


def wait_for_listener() -> None:
    deadline = time.monotonic() + LIMIT_S
    listening = f":{PORT:04X} "
    while not any(
        listening in line and " 0A " in line  # local port, and the state LISTEN
        for table in ("tcp", "tcp6")
        for line in Path("/proc/net", table).read_text().splitlines()
    ):
        if time.monotonic() > deadline:
            raise RuntimeError(f"perftest does not listen within {LIMIT_S:g} s")
        time.sleep(LOOK_S)


@contextmanager
def running(program: Sequence[str], size_bytes: int, messages: int) -> Iterator[Ends]:
    """End 1 sends first, and ends when all is done; both are gone afterwards."""
    devices = os.environ["SOFTROCE_DEVICES"].split()
    gids = os.environ["SOFTROCE_GID_INDEXES"].split()
    ends: Ends = []
    try:
        for end in (0, 1):
            arguments = command(program, devices[end], gids[end], size_bytes, messages)
            if end == 1:
                wait_for_listener()
                arguments.append("127.0.0.1")
            ends.append(
                subprocess.Popen(
                    arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
                )
            )
            machine.stay_on_a_core(end, ends[end].pid)
        yield ends
    finally:
        for process in ends:
            process.kill()
            process.wait()


def text_of(process: subprocess.Popen[str], limit_s: float = LIMIT_S) -> str:
    """What it has printed, once it has ended well."""
    text = process.communicate(timeout=limit_s)[0]
    if process.returncode != 0:
        raise RuntimeError(f"{process.args} failed:\n{text}")
    return text
