# SPDX-License-Identifier: Apache-2.0
"""Two ranks of rocecoll._core in one process, for programs whose own end or fork is the test."""

from __future__ import annotations

import os

from rocecoll import _core as core

LIMIT_S = 200.0


def two_ranks() -> tuple[list[core.Runtime], list[core.Group]]:
    """The runtime of each rank, and the group that they make."""
    runtimes = [core.Runtime() for _ in range(2)]
    addresses = [runtime.address for runtime in runtimes]
    key = os.urandom(16)
    groups = [
        core.Group(runtime, "test", key, rank, addresses, LIMIT_S)
        for rank, runtime in enumerate(runtimes)
    ]
    return runtimes, groups
