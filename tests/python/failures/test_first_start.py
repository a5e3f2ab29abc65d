# SPDX-License-Identifier: Apache-2.0
"""What keeps a first program from starting says so: too few ports."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
from launch import environment, run_programs

ALONE = """
import sys, torch.distributed as dist
dist.init_process_group("rocecoll", store=dist.FileStore(sys.argv[1], 2), rank=0, world_size=2)
"""


def start_on_a_taken_port(tmp_path: Path, **variables: str) -> str:
    """The last line of a rank that may have no port but one of another program, whatever others do."""
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
