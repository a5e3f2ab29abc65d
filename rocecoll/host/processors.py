# SPDX-License-Identifier: Apache-2.0
"""How many processors the ranks of this machine have: those they may run on, and a container's quota."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path("/")


def usable_cores() -> int:
    """How many cores all ranks of this machine together may use.

    A rank that may use fewer cores than its parent process has been pinned by mpirun or
    `srun --cpu-bind`, and the other ranks have cores of their own: count the parent's.
    """
    own = os.sched_getaffinity(0)
    try:
        return max(len(own), len(os.sched_getaffinity(os.getppid())))
    except OSError:  # the parent has ended, or is in another PID namespace
        return len(own)


def granted(root: Path = ROOT) -> float | None:
    """The processors that the control group (version 2 or 1) grants; None: no limit, or unreadable."""
    version_2 = root / "sys/fs/cgroup/cpu.max"
    version_1 = root / "sys/fs/cgroup/cpu"
    try:
        if version_2.exists():
            quota, period = version_2.read_text().split()
        else:
            quota = (version_1 / "cpu.cfs_quota_us").read_text().strip()
            period = (version_1 / "cpu.cfs_period_us").read_text()
        return None if quota in ("max", "-1") else int(quota) / int(period)
    except (OSError, ValueError):
        return None
