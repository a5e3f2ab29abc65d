# SPDX-License-Identifier: Apache-2.0
"""Where ranks and programs stood that are ended because they hang: shown for each of them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import harness
import pytest
import torch.distributed as dist
from harness import Pool, RankError
from launch import environment, run_programs

pytestmark = pytest.mark.quick

DEADLINE_S = 300


def wait_for(*paths: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not all(path.exists() for path in paths):
        assert time.monotonic() < deadline, paths
        time.sleep(0.02)


def hang(directory: Path) -> None:
    (directory / str(dist.get_rank())).touch()
    time.sleep(2 * DEADLINE_S)


def start_hang(pool: Pool, directory: Path) -> None:
    pool.send(hang, directory)
    wait_for(*(directory / str(rank) for rank in range(pool.size)))


def test_limit_of_a_call_shows_the_stacks_of_the_ranks(own_pool, tmp_path: Path) -> None:
    with own_pool(2) as pool:
        start_hang(pool, tmp_path)
        with pytest.raises(RankError, match=r"ranks \[0, 1\]: call: no answer") as ended:
            pool.collect([0, 1], limit_s=0)
        assert str(ended.value).count("in hang") == 2, ended.value
        assert not pool.alive


def test_limit_of_a_test_shows_the_stacks_of_the_ranks(
    own_pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The limit ends the wait for the ranks with an exception, as Ctrl-C does."""

    def interrupt(*unused: object, **also_unused: object) -> None:
        raise KeyboardInterrupt

    with own_pool(2) as pool:
        start_hang(pool, tmp_path)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(harness, "wait", interrupt)
            pool.collect([0, 1])
        assert not pool.alive
    assert capsys.readouterr().err.count("in hang") == 2


def test_limit_of_a_program_shows_its_stack_and_that_of_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    child = tmp_path / "child.py"
    child.write_text(
        "import pathlib, sys, time\n"
        "def hang_here():\n"
        "    pathlib.Path(sys.argv[1]).touch()\n"
        f"    time.sleep({2 * DEADLINE_S})\n"
        "hang_here()\n"
    )
    ready = tmp_path / "ready"
    command = ["sh", "-c", f"{sys.executable} {child} {ready}; true"]
    communicate = subprocess.Popen.communicate

    def until_ready(
        process: subprocess.Popen[str], input: None = None, timeout: float | None = None
    ) -> tuple[str, str]:
        """Reaches the limit once the child hangs."""
        if timeout is not None and timeout > DEADLINE_S:
            wait_for(ready)
            raise subprocess.TimeoutExpired(process.args, timeout)
        return communicate(process, input, timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", until_ready)
    with pytest.raises(subprocess.TimeoutExpired):
        run_programs([command], [environment()], limit_s=10 * DEADLINE_S)
    assert "in hang_here" in capsys.readouterr().err
