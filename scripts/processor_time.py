# SPDX-License-Identifier: Apache-2.0
"""What the processes that this one started have taken of a processor."""

from __future__ import annotations

import resource


def reaped_s() -> float:
    """Of children that have been waited for: it grows by the whole of one, and of its, when that is."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
