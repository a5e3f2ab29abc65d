# SPDX-License-Identifier: Apache-2.0
"""The classic programs under torchrun, mpirun and by hand, through every kind of rendezvous."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from launch import PROGRAMS, environment, free_port, mpirun, run_programs, torchrun
from programs.classic import PROGRAMS as CLASSIC

SCRIPT = PROGRAMS / "classic.py"

needs_mpirun = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed")


def assert_all_ran(output: str, ranks: int) -> None:
    for name in CLASSIC:
        for rank in range(ranks):
            assert f"{name} ok on {rank} of {ranks}\n" in output, output


@pytest.mark.quick
@pytest.mark.parametrize("ranks", [2, 3])
def test_torchrun(backend: str, ranks: int) -> None:
    assert_all_ran(torchrun(ranks, SCRIPT, "all", "--backend", backend), ranks)


@pytest.mark.parametrize("ranks", [2])
def test_torchrun_with_losses(backend: str, ranks: int) -> None:
    output = torchrun(ranks, SCRIPT, "all", "--backend", backend, ROCECOLL_FAULT="loss=0.05,seed=3")
    assert_all_ran(output, ranks)


@pytest.mark.quick
def test_algorithms_that_cannot_do_every_call(tmp_path: Path) -> None:
    """Algorithms that need 2^n ranks, or blocks of one size, run where they can."""
    program = tmp_path / "program.py"
    program.write_text("""
import torch, torch.distributed as dist
dist.init_process_group("rocecoll")
rank = dist.get_rank()
sums = torch.ones(9)
dist.all_reduce(sums)
rows = torch.empty(3 * (rank + 1))
dist.all_to_all_single(rows, torch.ones(6), [rank + 1] * 3, [1, 2, 3])
print(f"rank {rank} has {int(sums.sum())} and {int(rows.sum())}")
dist.destroy_process_group()
""")
    asked = "all_reduce:halving_doubling,all_to_all:bruck"
    output = torchrun(3, program, ROCECOLL_ALGORITHM=asked)
    for rank in range(3):
        assert f"rank {rank} has 27 and {3 * (rank + 1)}" in output


@pytest.mark.quick
@pytest.mark.lossy
@needs_mpirun
def test_mpirun_with_file(backend: str, faults: dict[str, str], tmp_path) -> None:
    url = f"file://{tmp_path}/store"
    output = mpirun(3, SCRIPT, "all", "--backend", backend, "--init-method", url, **faults)
    assert_all_ran(output, 3)


@needs_mpirun
def test_mpirun_with_environment(backend: str) -> None:
    output = mpirun(
        2,
        SCRIPT,
        "all",
        "--backend",
        backend,
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(free_port()),
    )
    assert_all_ran(output, 2)


@pytest.mark.parametrize("kind", ["env", "file", "tcp", "tcp6"])
def test_by_hand(backend: str, kind: str, tmp_path) -> None:
    """Three processes started like on three machines, without a launcher."""
    ranks, port = 3, free_port()
    if kind == "tcp6" and not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("this machine has no IPv6")
    url = {
        "env": "env://",
        "file": f"file://{tmp_path}/store",
        "tcp": f"tcp://127.0.0.1:{port}",
        "tcp6": f"tcp://[::1]:{port}",
    }[kind]
    command = [sys.executable, str(SCRIPT), "all", "--backend", backend, "--init-method", url]
    environments = [
        environment(
            RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
        )
        for rank in range(ranks)
    ]
    results = run_programs([command] * ranks, environments)
    assert [result.returncode for result in results] == [0] * ranks, [r.stdout for r in results]
    assert_all_ran("".join(result.stdout for result in results), ranks)


def test_two_jobs_at_once(backend: str) -> None:
    """Jobs on one machine do not see each other."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", str(SCRIPT), "all", "--backend", backend]
    for result in run_programs([command] * 2, [environment()] * 2):
        assert result.returncode == 0, result.stdout
        assert_all_ran(result.stdout, 2)


def test_two_agents(backend: str) -> None:
    """torchrun --nnodes 2, both agents on this machine."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
    command += ["--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-id", "test"]
    command += ["--rdzv-endpoint", f"127.0.0.1:{free_port()}"]
    command += [str(SCRIPT), "all", "--backend", backend]
    results = run_programs([command] * 2, [environment()] * 2)
    assert [result.returncode for result in results] == [0, 0], [r.stdout for r in results]
    assert_all_ran("".join(result.stdout for result in results), 4)
