# SPDX-License-Identifier: Apache-2.0
"""What keeps a first program from starting says so: too few ports, too few open files."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from launch import PROGRAMS, environment, run_program, run_programs

ALONE = """
import sys, torch.distributed as dist
dist.init_process_group("rocecoll", store=dist.FileStore(sys.argv[1], 2), rank=0, world_size=2)
"""


def start_on_a_taken_port(tmp_path: Path, **variables: str) -> str:
    """The last line of a rank whose only permitted port is taken by another program."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("", 0))
        port = taken.getsockname()[1]
        [result] = run_programs(
            [[sys.executable, "-c", ALONE, str(tmp_path / "store")]],
            [environment(ROCECOLL_PORT_RANGE=f"{port}-{port}", **variables)],
        )
    assert result.returncode == 1, result.stdout
    return result.stdout.splitlines()[-1].replace(str(port), "PORT")


@pytest.mark.quick
def test_a_port_range_that_is_too_small_for_the_ranks_of_a_host(tmp_path: Path) -> None:
    assert start_on_a_taken_port(tmp_path, LOCAL_WORLD_SIZE="2") == (
        "RuntimeError: rocecoll: no UDP port of ROCECOLL_PORT_RANGE=PORT-PORT is free: each process "
        "takes one, this host has 2 ranks, the range only 1; give it 2 ports or more"
    )


@pytest.mark.quick
def test_a_port_that_another_program_has(tmp_path: Path) -> None:
    assert start_on_a_taken_port(tmp_path) == (
        "RuntimeError: rocecoll: no UDP port of ROCECOLL_PORT_RANGE=PORT-PORT is free: each process "
        "takes one, and another process has the only one (ss -ulnp shows whose they are); give the "
        "range more ports, or others"
    )


FIRST = range(32)  # up to more than a first group of two ranks needs open at once
LATER = range(12)
# One rank may still have as many as it needs when the other, which has not, tells it.
TOO_MANY = re.compile(
    r"(?:RuntimeError|could not start): rocecoll: too many open files: this process may have (\d+) "
    r"and needs about (\d+); raise `ulimit -n`\n\Z"
)


def run_few_files(late: bool, directory: Path, files: Iterable[object]) -> dict[str, list[Any]]:
    """The exit status and the output of each rank, by what few_files.py takes for FILES."""
    program = str(PROGRAMS / "few_files.py")
    command = [sys.executable, program, str(directory), str(int(late)), *map(str, files)]
    ends: dict[str, list[Any]] = json.loads(run_program(command))
    return ends


def check_few_files(late: bool, directory: Path, files: range) -> list[bool]:
    """By number of files, whether both ranks worked. If not, each said that it has too few."""
    worked = []
    for count, ends in run_few_files(late, directory, files).items():
        works = all(end == [0, "works\n"] for end in ends)
        worked.append(works)
        for status, output in ends:
            assert works or (status == 1 and TOO_MANY.search(output)), (count, ends)
    return worked


def test_a_first_group_has_the_files_that_it_needs_or_says_so(tmp_path: Path) -> None:
    worked = check_few_files(False, tmp_path, FIRST)
    assert not worked[0] and worked[-1]
    assert worked == sorted(worked), worked


def test_a_later_group_has_the_files_that_it_needs_or_says_so(tmp_path: Path) -> None:
    worked = check_few_files(True, tmp_path, LATER)
    assert not worked[0] and worked[-1]
    assert worked == sorted(worked), worked


@pytest.mark.parametrize("late", [False, True], ids=["first", "later"])
def test_a_rank_with_too_few_files_tells_the_others(late: bool, tmp_path: Path) -> None:
    few, enough = 0, 1000
    files = [f"{few},{enough}", f"{enough},{few}"]
    for lacks, ends in enumerate(run_few_files(late, tmp_path, files).values()):
        assert [status for status, _ in ends] == [1, 1], ends
        assert TOO_MANY.search(ends[lacks][1]), ends
        assert f"rank {lacks} (" in ends[1 - lacks][1], ends
        assert "could not start: rocecoll: too many open files" in ends[1 - lacks][1], ends


def test_the_number_of_files_that_is_advised_is_enough(tmp_path: Path) -> None:
    """As a user would do it: with a shell's limit, then with the one that the message names."""
    code = (
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('rocecoll', store=dist.HashStore(), rank=0, world_size=1)\n"
        "dist.all_reduce(torch.ones(3))\n"
        "print('works')\n"
    )
    limit, said = 16, ""
    for _ in range(3):
        shell = [
            "bash",
            "-c",
            'ulimit -n "$0" && exec "$@"',
            str(limit),
            sys.executable,
            "-c",
            code,
        ]
        result: subprocess.CompletedProcess[str]
        [result] = run_programs([shell], [environment()])
        said += result.stdout
        if result.returncode == 0:
            break
        advised = TOO_MANY.search(result.stdout)
        assert advised, said
        limit = int(advised[2])
    assert result.returncode == 0 and "works" in result.stdout, said
