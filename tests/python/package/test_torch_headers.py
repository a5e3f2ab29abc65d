# SPDX-License-Identifier: Apache-2.0
"""csrc/torch compiles against the headers of every torch that is supported, beside the one that this
package was built with."""

from __future__ import annotations

import subprocess
import sys

import pytest
from launch import ROOT

from rocecoll._build_info import TORCH_MINORS, TORCH_VERSION

SCRIPT = "scripts/check_torch_headers.py"
UNREACHABLE = 3
OTHERS = [minor for minor in TORCH_MINORS if not TORCH_VERSION.startswith(f"{minor}.")]


def check(version: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, version], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("minor", OTHERS)
def test_compiles_against(minor: str) -> None:
    result = check(f"{minor}.*")
    if result.returncode == UNREACHABLE:
        pytest.skip(result.stdout.strip())
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"torch {minor}." in result.stdout and "csrc/torch compiles" in result.stdout


def test_a_torch_that_is_not_there_is_no_verdict() -> None:
    result = check("1.0.9999")
    assert result.returncode == UNREACHABLE, result.stdout + result.stderr
    assert "torch 1.0.9999: nothing to compile against: " in result.stdout
    assert "does not compile" not in result.stdout
