# SPDX-License-Identifier: Apache-2.0
"""How scripts/setup finds and installs system packages, with an apt that only takes notes, and what it
says while it builds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from launch import ROOT

pytestmark = pytest.mark.quick

PACKAGES = """# group package probe
a  shell             command sh
a  lacking           command rocecoll-lacks-this
b  one|two|three     file {directory}/found/*.txt
"""
# Knows `two` alone; an installation makes what the package of group b is recognised by.
APT_CACHE = """#!/bin/sh
[ "$2" = two ] && echo '  Candidate: 1.0' || echo '  Candidate: (none)'
"""
APT_GET = """#!/bin/sh
echo "$@" >>{directory}/notes
case "$*" in *install*two*) mkdir -p {directory}/found && touch {directory}/found/x.txt ;; esac
"""


@pytest.fixture
def setup(tmp_path: Path) -> list[str]:
    """The command, in a tree of its own."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "bin").mkdir()
    shutil.copy(ROOT / "scripts" / "setup", tmp_path / "scripts" / "setup")
    packages = PACKAGES.format(directory=tmp_path)
    (tmp_path / "scripts" / "system_packages.txt").write_text(packages)
    # `id`, because only root installs.
    programs = {"apt-cache": APT_CACHE, "apt-get": APT_GET, "id": "#!/bin/sh\necho 0\n"}
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(text.format(directory=tmp_path))
        (tmp_path / "bin" / name).chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    return ["env", f"PATH={path}", str(tmp_path / "scripts" / "setup")]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_missing_packages_of_the_groups_asked_for(setup: list[str]) -> None:
    assert run(*setup, "missing", "a").stdout.split() == ["lacking"]
    assert run(*setup, "missing", "b").stdout.split() == ["two"]
    assert run(*setup, "missing", "a", "b").stdout.split() == ["lacking", "two"]
    assert run(*setup, "missing", "c").stdout == ""


def test_installs_what_is_missing_once(setup: list[str], tmp_path: Path) -> None:
    for _ in range(2):
        assert run(*setup, "packages", "b").returncode == 0
    installed = [
        line for line in (tmp_path / "notes").read_text().splitlines() if "install" in line
    ]
    assert len(installed) == 1 and installed[0].endswith(" two")


def test_what_is_still_missing_is_named(setup: list[str]) -> None:
    failed = run(*setup, "packages", "a", "b")
    assert failed.returncode != 0
    assert "still not found after the installation: lacking" in failed.stderr


# What ninja says before it knows how many steps there are, and then.
NINJA = ["[0/2] Re-checking globbed directories...", *(f"[{i}/8] Building" for i in range(1, 9))]


def test_build_tells_each_quarter_of_its_steps(tmp_path: Path) -> None:
    """The function alone: a whole run of the script would build."""
    text = (ROOT / "scripts" / "setup").read_text()
    building = re.search(r"^building\(\) \{\n.*?^\}\n", text, re.MULTILINE | re.DOTALL)
    assert building is not None
    steps = tmp_path / "steps"
    steps.write_text("\n".join(NINJA) + "\n")
    script = f'say() {{ echo "$@" >&2; }}\nlog={tmp_path}/log\n{building[0]}building it cat {steps}'
    said = run("bash", "-c", script).stderr.splitlines()
    assert said == ["setup: it", *(f"  {i} of 8" for i in (1, 2, 4, 6, 8))]
