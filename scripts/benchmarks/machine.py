# SPDX-License-Identifier: Apache-2.0
"""What the figures of a run of scripts/bench depend on, so that readers can judge and repeat it."""

from __future__ import annotations

import shlex
import subprocess
import sys
import timeit
from pathlib import Path

import torch

from rocecoll.bench import machine

ROOT = Path(__file__).resolve().parents[2]


def commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def torch_call_us() -> float:
    """Of an addition to one element, in which nothing is computed to speak of."""
    one, calls = torch.zeros(1), 10000
    return min(timeit.repeat(lambda: one.add_(1), number=calls)) / calls * 1e6


def facts(tcp: str | None, cache_line: str) -> dict[str, str | int]:
    """`tcp` is the congestion control that was asked for; `cache_line` the distance of two cores."""
    found = machine.facts()
    if tcp is not None:
        found["tcp_congestion_control"] = tcp
    return {
        **found,
        "cache_line_round_trip": cache_line,
        "torch_call": f"{torch_call_us():.1f} us",
        "commit": commit(),
        "command": shlex.join(["./scripts/bench", *sys.argv[1:]]),
    }
