# SPDX-License-Identifier: Apache-2.0
"""What scripts/build_wheels.py has cibuildwheel do, as far as that shows without a container."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import build_wheels
import pytest
import tomllib
from launch import ROOT

from rocecoll._build_info import TORCH_MINORS

pytestmark = pytest.mark.quick

with (ROOT / "pyproject.toml").open("rb") as file:
    CONFIGURATION = tomllib.load(file)["tool"]["cibuildwheel"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/build_wheels.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_supported_torch_has_its_pythons() -> None:
    assert tuple(build_wheels.PYTHONS) == TORCH_MINORS


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
@pytest.mark.parametrize("torch", TORCH_MINORS)
def test_one_wheel_for_each_python(torch: str, arch: str) -> None:
    """As cibuildwheel itself understands the configuration."""
    listed = run(torch, "--arch", arch, "--list")
    assert listed.returncode == 0, listed.stdout + listed.stderr
    pythons = build_wheels.PYTHONS[torch]
    assert listed.stdout.split("\n")[1:-1] == [f"cp3{one}-manylinux_{arch}" for one in pythons]


def test_torch_is_there_before_each_build() -> None:
    environment = build_wheels.cibuildwheel_environment("2.14")
    assert environment["CIBW_BEFORE_BUILD"] == "pip install 'torch==2.14.*'"
    assert CONFIGURATION["linux"]["environment"]["PIP_EXTRA_INDEX_URL"].endswith("/whl/cpu")


def test_system_packages_of_the_image_come_from_the_list(tmp_path: Path) -> None:
    dnf = tmp_path / "dnf"
    dnf.write_text('#!/bin/sh\necho "$@"\n')
    dnf.chmod(0o755)
    command = CONFIGURATION["linux"]["before-all"].replace("{project}", str(ROOT))
    installed = subprocess.run(
        ["sh", "-c", f'PATH="{tmp_path}:$PATH"; {command}'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert installed.stdout == "install -y rdma-core-devel\n"


def test_libraries_of_others_are_left_out() -> None:
    command = build_wheels.repair_command(Path("a b/x.whl"), Path("out"))
    assert command[:2] == ["auditwheel", "repair"] and command[-3:] == ["-w", "out", "a b/x.whl"]
    excluded = {command[i + 1] for i, word in enumerate(command) if word == "--exclude"}
    assert excluded == {"libtorch*.so", "libc10.so", "libibverbs.so.1"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "either a minor release of torch, or --here"),
        (("2.15", "--here"), "either a minor release of torch, or --here"),
        (("2.6",), "torch 2.6: accepted is 2.7 to 2.15"),
    ],
)
def test_what_cannot_be_built_is_refused(arguments: tuple[str, ...], said: str) -> None:
    refused = run(*arguments)
    assert refused.returncode == 2
    assert said in refused.stderr
