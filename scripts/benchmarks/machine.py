# SPDX-License-Identifier: Apache-2.0
"""What the figures of a run depend on, so that a reader can tell and repeat it."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL, MEMORY = "model name", "MemTotal"


def line_of(path: str, name: str) -> str:
    """The value in a file of /proc, of the first line with that name."""
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"


def commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def facts(tcp: str | None) -> dict[str, str | int]:
    """`tcp` is the congestion control that was asked for."""
    default = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    return {
        "processor": line_of("/proc/cpuinfo", MODEL),
        "cores": len(os.sched_getaffinity(0)),
        "memory": line_of("/proc/meminfo", MEMORY),
        "kernel": platform.release(),
        "largest_socket_buffer": Path("/proc/sys/net/core/rmem_max").read_text().strip(),
        "tcp_congestion_control": tcp or default,
        "python": platform.python_version(),
        "torch": version("torch"),
        "commit": commit(),
        "command": shlex.join(["./scripts/bench", *sys.argv[1:]]),
    }
