# SPDX-License-Identifier: Apache-2.0
"""The processor time of the processes that this one has started."""

from __future__ import annotations

import resource


def reaped_s() -> float:
    """Of children that have been waited for: each then counts at once, with its own children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
