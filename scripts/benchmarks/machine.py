# SPDX-License-Identifier: Apache-2.0
"""What the figures of a run of scripts/bench depend on, so that readers can judge and repeat it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from rocecoll.bench import machine

ROOT = Path(__file__).resolve().parents[2]


def commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def facts(tcp: str | None, cache_line: str) -> dict[str, str | int]:
    """`tcp` is the congestion control that was asked for; `cache_line` the distance of two cores."""
    found = machine.facts()
    if tcp is not None:
        found["tcp_congestion_control"] = tcp
    return {
        **found,
        "cache_line_round_trip": cache_line,
        "commit": commit(),
        "command": shlex.join(["./scripts/bench", *sys.argv[1:]]),
    }
