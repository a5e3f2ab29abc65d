# SPDX-License-Identifier: Apache-2.0
"""A process that may start no further thread says so, or goes on without it; it never hangs."""

from __future__ import annotations

import sys
from pathlib import Path

from launch import PROGRAMS, environment, run_programs


def test_no_thread_for_a_while(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAMS / "few_threads.py"), str(tmp_path / "store")]
    for result in run_programs([command] * 2, [environment(RANK=str(rank)) for rank in range(2)]):
        assert result.returncode == 0, result.stdout
        assert result.stdout.splitlines()[-1] == "done", result.stdout
