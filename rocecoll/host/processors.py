# SPDX-License-Identifier: Apache-2.0
"""How many processors the ranks of this machine have: those they may run on, and what a container grants."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path("/")


def usable_cores() -> int:
    """For all ranks of this machine together.

    A rank that may use fewer than the process that started it was given them for itself (mpirun
    and `srun --cpu-bind` pin each rank), and the others theirs.
    """
    own = os.sched_getaffinity(0)
    try:
        return max(len(own), len(os.sched_getaffinity(os.getppid())))
    except OSError:  # it has ended, or is not to be seen from here
        return len(own)


def granted(root: Path = ROOT) -> float | None:
    """Of the control group, version 2 or 1; None: no limit, or none that can be read."""
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
