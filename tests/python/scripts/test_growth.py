# SPDX-License-Identifier: Apache-2.0
"""scripts/growth.py at few ranks: it ends, and every cell is filled."""

from __future__ import annotations

import re
import sys

import pytest
from launch import ROOT, environment, run_programs

SCRIPT = str(ROOT / "scripts" / "growth.py")
LIMIT_S = 240


@pytest.mark.nightly
def test_two_and_three_ranks() -> None:
    command = [sys.executable, SCRIPT, "--ranks", "2,3", "--rounds", "1"]
    env = environment(PYTHONPATH=str(ROOT))
    done = run_programs([command], [env], LIMIT_S)[0]
    assert done.returncode == 0, done.stdout
    ratio = r"\d+\.\d\d \(.*\)"
    cells = rf"\d+ ms \| \d+ ms \| {ratio} \| \d+ us \| \d+ us \| {ratio}"
    rows = [line for line in done.stdout.splitlines() if re.match(r"\| \d", line)]
    assert [
        bool(re.fullmatch(rf"\| {n} \| {cells} \|", row))
        for n, row in zip((2, 3), rows, strict=True)
    ] == [True, True]
