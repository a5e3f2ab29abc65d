# SPDX-License-Identifier: Apache-2.0
"""The project's own tests of accelerators, in a process of pytest's."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

from test_report import read_junit

from gpu_parts.installation import ROOT
from gpu_parts.rank import CannotRunError, Rank

NEEDED = ("pytest", "pytest_timeout", "psutil", "numpy")
SMALL = "test_device_streams and test_futures"
REPORT_S = 10.0


def run(rank: Rank) -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise CannotRunError(f"this Python lacks {', '.join(missing)}")
    report = rank.directory / "tests.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
    command += ["-k", f"{rank.kind} and {SMALL}" if rank.small else rank.kind]
    command += [f"--junitxml={report}", str(ROOT / "tests" / "python" / "devices")]
    # Not in the tree: its package would be found before the one that is checked.
    try:
        subprocess.run(command, cwd=rank.directory, timeout=rank.left_s - REPORT_S, check=False)
    except subprocess.TimeoutExpired:
        rank.fail("the tests have not ended in time")
    tally = read_junit(report)
    rank.tell("tests", tally.summary())
    for name in tally.failures:
        rank.fail(name)
    rank.expect(tally.passed > 0, "no test has passed")
