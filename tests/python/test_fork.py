# SPDX-License-Identifier: Apache-2.0
"""Children of fork(): they cannot use the group, say so at once, and end without hanging."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from launch import PROGRAMS, environment, run_programs


@pytest.mark.quick
def test_children(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAMS / "forking.py"), str(tmp_path / "store")]
    environments = [environment(RANK=str(rank)) for rank in range(2)]
    for result in run_programs([command, command], environments):
        assert result.returncode == 0, result.stdout
        assert result.stdout.splitlines() == [
            "use the group: 0 all refused",
            "leave at once: 0 ",
            "just end: 0 ",
            "drop everything: 0 dropped",
            "done",
        ], result.stdout
