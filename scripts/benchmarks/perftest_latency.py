# SPDX-License-Identifier: Apache-2.0
"""How long perftest's messages take from one device of a guest to the other.

Its ends poll, so they need a processor each, and its clock needs the frequency in /proc/cpuinfo, which
User-Mode Linux has not.
"""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks import perftest_ends
from benchmarks.cases import Transport

PROGRAMS = {
    Transport.rc: ("ib_write_lat",),
    Transport.ud: ("ib_send_lat", "-c", "UD"),
}


def why_not() -> str:
    """Why it cannot be measured; empty if it can."""
    if len(os.sched_getaffinity(0)) < 2:
        return "its ends poll, and there is one processor"
    if "MHz" not in Path("/proc/cpuinfo").read_text():
        return "/proc/cpuinfo has no frequency"
    return ""


def median_seconds(text: str, size_bytes: int) -> float:
    """From a line of its table: bytes, iterations, then least, most, typical (the median) time in us."""
    for line in text.splitlines():
        words = line.split()
        if len(words) > 4 and words[0] == str(size_bytes):
            return float(words[4]) / 1e6
    raise RuntimeError(f"perftest says nothing of {size_bytes} bytes:\n{text}")


def one_way_seconds(transport: Transport, size_bytes: int, round_trips: int) -> float:
    """The median latency."""
    with perftest_ends.running(PROGRAMS[transport], size_bytes, round_trips) as ends:
        texts = [perftest_ends.text_of(process) for process in reversed(ends)]
    return median_seconds(texts[0], size_bytes)
