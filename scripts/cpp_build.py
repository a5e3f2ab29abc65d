# SPDX-License-Identifier: Apache-2.0
"""The directory in which setup.py compiles the core, and ./scripts/test the C++ tests: they link the same
layers, which are thus compiled once. Each build in it keeps what the others have built."""

from __future__ import annotations

import os
import sysconfig
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def build_directory(torch_version: str = "") -> Path:
    """The directory for this Python and `torch_version`, by default the torch that is installed."""
    soabi = sysconfig.get_config_var("SOABI")
    return ROOT / "build" / f"{soabi}-torch-{torch_version or version('torch')}"


def configure_tests() -> list[str]:
    """The command; it makes each case of GoogleTest a test of CTest. setup.py's settings stay."""
    command = ["cmake", "-S", str(ROOT / "csrc"), "-B", str(build_directory()), "-G", "Ninja"]
    return [*command, "-DROCECOLL_UNITY=ON", "-DROCECOLL_TESTS=ON", "-DROCECOLL_TEST_CASES=ON"]


def build_tests(directory: Path, *targets: str) -> list[str]:
    """The command; without targets, for all tests."""
    jobs = str(os.cpu_count() or 1)
    return ["cmake", "--build", str(directory), "-j", jobs, "--target", *(targets or ["cpp_tests"])]
