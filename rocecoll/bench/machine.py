# SPDX-License-Identifier: Apache-2.0
"""What the figures of a run depend on, so that readers can judge and repeat it; the core of a rank."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

TCP = "/proc/sys/net/ipv4/tcp_congestion_control"
MODEL, MEMORY = "model name", "MemTotal"
UNKNOWN = "unknown"


def stay_on_a_core(rank: int, thread: int = 0) -> None:
    """Pins the calling thread or `thread`: otherwise the scheduler's choice would affect the figures."""
    cores = sorted(os.sched_getaffinity(thread))
    os.sched_setaffinity(thread, {cores[rank % len(cores)]})


def line_of(path: str, name: str) -> str:
    """The value of the first line with that name in a file of /proc."""
    for line in text_of(path).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return UNKNOWN


def text_of(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:  # /proc is not mounted, or not all of it
        return UNKNOWN


def facts() -> dict[str, str | int]:
    return {
        "processor": line_of("/proc/cpuinfo", MODEL),
        "cores": len(os.sched_getaffinity(0)),
        "memory": line_of("/proc/meminfo", MEMORY),
        "kernel": platform.release(),
        "largest_socket_buffer": text_of("/proc/sys/net/core/rmem_max"),
        "tcp_congestion_control": text_of(TCP),
        "python": platform.python_version(),
        "torch": version("torch"),
    }
