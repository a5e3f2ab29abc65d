# SPDX-License-Identifier: Apache-2.0
"""Children of fork(): they cannot use the group, say so at once, and end without hanging; they may
begin anew, and keep nothing that would hide their parent's death."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from launch import PROGRAMS, environment, free_port, run_program, run_programs


@pytest.mark.quick
def test_children(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAMS / "forking.py"), str(tmp_path / "store")]
    # torch's own recorder (2.15) would say that a child has another rank than its parent.
    environments = [environment(RANK=str(rank), TORCH_FR_BUFFER_SIZE="0") for rank in range(2)]
    for result in run_programs([command, command], environments):
        assert result.returncode == 0, result.stdout
        lines = [line for line in result.stdout.splitlines() if "has waited" not in line]
        assert lines == [  # apart from what the log says on a slow machine
            "use the group: 0 all refused",
            "begin anew: 0 sum 1.0",
            "leave at once: 0 ",
            "just end: 0 ",
            "drop everything: 0 dropped",
            "done",
        ], result.stdout


@pytest.mark.quick
def test_children_without_torch() -> None:
    """They share memory with the other ranks, which must not get anything from them."""
    output = run_program([sys.executable, str(PROGRAMS / "forking_core.py")])
    assert output.splitlines() == [
        "all_reduce: refused",
        "wait: refused",
        "status: refused",
        "abort: refused",
        "set_timeout: refused",
        "shutdown: refused",
        "stats: refused",
        "peer_stats: refused",
        "address: refused",
        "use it: 0",
        "just end: 0",
        "drop it: 0",
        "begin anew: 0",
        str([[3.0] * 4] * 2),
    ], output


@pytest.mark.parametrize("way", ["fork", "loader"])
def test_killed_parent_of_a_living_child(tmp_path: Path, way: str) -> None:
    """The network reports the death at once. Silence would do so long after the test's limit."""
    program = str(PROGRAMS / "killed_parent.py")
    command = [sys.executable, program, str(tmp_path / "store"), way, str(tmp_path)]
    environments = [
        environment(RANK=str(rank), ROCECOLL_PEER_TIMEOUT="600", ROCECOLL_TRANSPORT="udp")
        for rank in range(2)
    ]
    try:
        survivor, killed = run_programs([command, command], environments)
        assert killed.returncode == -signal.SIGKILL, killed.stdout
        child = int((tmp_path / "child").read_text())
        living = psutil.Process(child).status() != psutil.STATUS_ZOMBIE
        assert living, "the child has ended, so the test shows nothing"
        assert survivor.returncode == 0, survivor.stdout
        assert "rank 1" in survivor.stdout, survivor.stdout
        assert "600 s" not in survivor.stdout, survivor.stdout
    finally:
        if (tmp_path / "child").exists():
            os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


@pytest.mark.quick
def test_last_message_of_a_worker_arrives() -> None:
    """multiprocessing ends its forked processes without atexit."""
    run_program([sys.executable, str(PROGRAMS / "worker_ranks.py"), str(free_port())])
