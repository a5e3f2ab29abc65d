# SPDX-License-Identifier: Apache-2.0
"""How far apart two cores are at the moment (cache_line.cc)."""

from __future__ import annotations

import ctypes
import os

from benchmarks import native


def round_trip_ns() -> float | None:
    """Between the first two cores that this process may use; none if it has only one."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        return None
    measure = ctypes.CDLL(str(native.build("cache_line"))).CacheLineRoundTripNs
    measure.restype = ctypes.c_double
    taken = float(measure(*cores))
    return taken if taken >= 0 else None


def words(samples: list[float | None]) -> str:
    """For the table of the machine."""
    known = [f"{sample:.0f}" for sample in samples if sample is not None]
    return f"{', then '.join(known)} ns" if known else "unknown"
