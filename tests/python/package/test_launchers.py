# SPDX-License-Identifier: Apache-2.0
"""rocecoll.init() under every launcher, real where there is one, else by its variables."""

from __future__ import annotations

import shutil
import sys

import pytest
from launch import PROGRAMS, environment, free_port, mpirun, run_programs, torchrun

from rocecoll.launchers import Place, find_place, first_host

pytestmark = pytest.mark.quick

SCRIPT = PROGRAMS / "placed.py"


def expect(output: str, launcher: str, size: int, local: bool = True) -> None:
    for rank in range(size):
        place = rank if local else None
        total = sum(range(size))
        line = f"{launcher}: rank {rank} of {size}, local {place}, sum {total}\n"
        assert line in output, output


def by_hand(size: int, *variables: dict[str, str]) -> str:
    """One process for each set of variables, as if each ran on a machine of its own."""
    command = [sys.executable, str(SCRIPT)]
    results = run_programs([command] * size, [environment(**one) for one in variables])
    assert [result.returncode for result in results] == [0] * size, [r.stdout for r in results]
    return "".join(result.stdout for result in results)


def test_torchrun() -> None:
    expect(torchrun(2, SCRIPT), "torch", 2)


def test_plain_variables() -> None:
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    expect(by_hand(2, *({"RANK": str(rank), **common} for rank in range(2))), "torch", 2, False)


@pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed")
def test_mpirun_without_a_meeting_point() -> None:
    expect(mpirun(2, SCRIPT), "Open MPI", 2)


def test_slurm() -> None:
    """Three tasks of srun on one node."""
    common = {"SLURM_NTASKS": "3", "SLURM_JOB_ID": str(free_port()), "SLURM_STEP_ID": "0"}
    common["SLURM_STEP_NODELIST"] = "localhost"
    tasks = [{"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), **common} for rank in range(3)]
    expect(by_hand(3, *tasks), "Slurm", 3)


def slurm(**extra: str) -> dict[str, str]:
    nodes = "gpu[07-09,12],login1"
    own = {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1"}
    return {**own, "SLURM_JOB_ID": "17", "SLURM_NODELIST": nodes, **extra}


def test_explicit_place_comes_first() -> None:
    found = find_place(slurm(RANK="1", WORLD_SIZE="2", LOCAL_RANK="0", OMPI_COMM_WORLD_RANK="5"))
    assert found == Place("torch", 1, 2, 0, "env://")


def test_open_mpi_comes_before_slurm() -> None:
    own = {f"OMPI_COMM_WORLD_{name}": "1" for name in ("RANK", "LOCAL_RANK")}
    own["OMPI_COMM_WORLD_SIZE"] = "4"
    found = find_place(slurm(MASTER_ADDR="::1", MASTER_PORT="5", **own))
    assert found == Place("Open MPI", 1, 4, 1, "tcp://[::1]:5")


def test_slurm_meets_at_its_first_host() -> None:
    one, same, other = (find_place(slurm(SLURM_STEP_ID=step)).init_method for step in "001")
    assert one == same != other  # two steps of one job do not meet each other
    assert one.startswith("tcp://gpu07:")
    assert find_place(slurm(MASTER_PORT="9")).init_method == "tcp://gpu07:9"


def test_pmi_needs_a_meeting_point_on_several_hosts() -> None:
    own = {"PMI_RANK": "0", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"}
    with pytest.raises(RuntimeError, match="PMI does not say where rank 0 runs: set MASTER_ADDR"):
        find_place(own)
    found = find_place({**own, "MPI_LOCALNRANKS": "4"})
    assert found == Place("PMI", 0, 4, 0, "tcp://127.0.0.1:29500")


def test_no_launcher() -> None:
    with pytest.raises(RuntimeError, match="found no launcher: start the program with torchrun"):
        find_place({})


@pytest.mark.parametrize(
    ("hosts", "first"),
    [
        ("one", "one"),
        ("one,two", "one"),
        ("gpu[07-09,12],login1", "gpu07"),
        ("gpu[3,5]", "gpu3"),
        ("rack[1-2]node[04-05].example", "rack1node04.example"),
        ("login1,gpu[07-09]", "login1"),
    ],
)
def test_first_host(hosts: str, first: str) -> None:
    assert first_host(hosts) == first
