# SPDX-License-Identifier: Apache-2.0
"""How the ranks of rocecoll and of OpenMPI time an all_reduce: the same way for both."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from typing_extensions import Buffer

from rocecoll.bench.sizes import MIB

# A process's first calls take several times as long as later ones: a few calls if they are large, hundreds
# if they are small.
WARM_UP_CALLS, WARM_UP_BYTES = 500, 4 * MIB


def seconds_of_calls(
    all_reduce: Callable[[np.ndarray, np.ndarray], None],
    barrier: Callable[[], None],
    size_bytes: int,
    calls: int,
    memory: Callable[[int], Buffer] = bytearray,
) -> list[float]:
    """Seconds of each call of `all_reduce(input, output)` on this rank of two; checks the result."""
    mine, total = (np.frombuffer(memory(size_bytes), np.float32) for _ in range(2))
    mine.fill(1)
    total.fill(0)
    for _ in range(max(1, min(WARM_UP_CALLS, WARM_UP_BYTES // size_bytes))):
        all_reduce(mine, total)
    barrier()
    seconds = []
    for _ in range(calls):
        started = time.perf_counter()
        all_reduce(mine, total)
        seconds.append(time.perf_counter() - started)
    if not (total == 2).all():
        raise SystemExit(f"all_reduce of {size_bytes} bytes: wrong result")
    return seconds
