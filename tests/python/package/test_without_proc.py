# SPDX-License-Identifier: Apache-2.0
"""Ranks and commands where /proc is not mounted, as in some sandboxes and chroots."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from launch import environment, run_programs

from rocecoll.host.link_states import link_state, link_states

pytestmark = pytest.mark.quick

HIDE = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
PROGRAM = """
import sys, torch, torch.distributed as dist
store = dist.FileStore(sys.argv[2], 2)
dist.init_process_group("rocecoll", store=store, rank=int(sys.argv[1]), world_size=2)
tensor = torch.ones(100_000)
dist.all_reduce(tensor)
print("sum", tensor[-1].item())
"""


@pytest.fixture(autouse=True, scope="module")
def hidden() -> None:
    tried = subprocess.run([*HIDE, "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"no mount namespaces here: {tried.stderr.strip()}")


def test_ranks_work(tmp_path: Path) -> None:
    commands = [
        [*HIDE, sys.executable, "-c", PROGRAM, str(rank), str(tmp_path / "store")]
        for rank in (0, 1)
    ]
    variables = environment(LOCAL_WORLD_SIZE="2", LOCAL_RANK="0")
    for result in run_programs(commands, [variables] * 2):
        assert result.returncode == 0, result.stdout
        assert "sum 2.0" in result.stdout


@pytest.mark.parametrize("command", [["devices"], ["doctor"], ["doctor", "--report", "{}/report"]])
def test_commands_work(command: list[str], tmp_path: Path) -> None:
    words = [word.format(tmp_path) for word in command]
    run = [*HIDE, sys.executable, "-m", "rocecoll", *words]
    done = subprocess.run(run, env=environment(), capture_output=True, text=True)
    assert "Traceback" not in done.stderr and "could not be looked at" not in done.stdout, done


def test_status_says_what_it_lacks() -> None:
    run = [*HIDE, sys.executable, "-m", "rocecoll", "status"]
    done = subprocess.run(run, env=environment(), capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("rocecoll status: cannot see which processes listen, as ")
    assert done.stderr.endswith(": mount /proc\n")


def test_interfaces_are_as_others_see_them() -> None:
    theirs = psutil.net_if_stats()
    ours = link_states()
    assert "lo" in ours
    for name, state in ours.items():
        if name in theirs:  # another test may have made or removed one
            assert (state.up, state.mtu_bytes) == (theirs[name].isup, theirs[name].mtu), name
    assert link_state("lo") == ours["lo"]
    assert link_state("no such name") is None
