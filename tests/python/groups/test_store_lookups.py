# SPDX-License-Identifier: Apache-2.0
"""The names that torch's Store looks up while ranks connect, which docs/hangs.md tells of, and how to have none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from launch import PROGRAMS, run_program

PLACE = [
    "unshare",
    "--net",
    "--mount",
    "sh",
    "-c",
    'ip link set lo up && mount --bind "$1" /etc/hosts && mount --bind "$2" /etc/resolv.conf &&'
    ' mount --bind "$3" /etc/nsswitch.conf && shift 3 && exec "$@"',
    "sh",
]


@pytest.mark.parametrize(
    ("line", "asked"),
    [("127.0.0.1 localhost", 4), ("::ffff:127.0.0.1 localhost", 0)],
    ids=["ordinary_line", "line_in_the_form_of_ipv6"],
)
def test_lookups_of_two_ends(line: str, asked: int, tmp_path: Path) -> None:
    """Each client looks up its peer's name, and the thread that serves the Store each client's."""
    files = {
        "hosts": line,
        "resolv.conf": "nameserver 127.0.0.1",
        "nsswitch.conf": "hosts: files dns",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n")
    place = [*PLACE, *(str(tmp_path / name) for name in files)]
    tried = subprocess.run([*place, "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"no namespaces with files of their own here: {tried.stderr.strip()}")
    program = [sys.executable, str(PROGRAMS / "store_lookups.py"), "127.0.0.1"]
    assert run_program([*place, *program]) == f"asked {asked}\n"
