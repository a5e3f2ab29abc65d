# SPDX-License-Identifier: Apache-2.0
"""rocecoll.init() under every launcher: the real one if it is installed, otherwise its
variables."""

from __future__ import annotations

import re
import shutil
import socket
import sys
import zlib

import psutil
import pytest
from launch import PROGRAMS, environment, free_port, mpirun, run_program, run_programs, torchrun

from rocecoll.launchers import FIRST_PORT, PORTS, TORCH_PORT, Place, find_place, first_host

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


PMI = {"PMI_RANK": "0", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "4"}


def test_pmi_needs_a_meeting_point_on_several_hosts() -> None:
    several = {**PMI, "MPI_LOCALNRANKS": "2"}
    with pytest.raises(RuntimeError, match="PMI does not say where rank 0 runs: set MASTER_ADDR"):
        find_place(several)
    # Jobs cannot be told apart.
    assert find_place({**several, "MASTER_ADDR": "a"}).init_method == "tcp://a:29500"
    jobs = [{**several, "MASTER_ADDR": "a", "PMI_JOBID": job} for job in ("7.0", "7.0", "7.1")]
    one, same, other = (find_place(job).init_method for job in jobs)
    assert one == same != other != "tcp://a:29500"


class Process:
    """One of psutil's, with these ancestors' variables, the nearest first; None: not to be read."""

    def __init__(self, pid: int, *ancestors: dict[str, str] | None) -> None:
        self.pid = pid
        self._ancestors = ancestors

    def parents(self) -> list[Process]:
        return [Process(10 * self.pid + n, own) for n, own in enumerate(self._ancestors)]

    def environ(self) -> dict[str, str]:
        if self._ancestors[0] is None:
            raise psutil.AccessDenied(self.pid)
        return self._ancestors[0]


@pytest.mark.parametrize(
    ("ancestors", "starter"),
    [
        (({"PATH": "/"}, {}), 10),
        (({"PMI_RANK": "0"}, {}, {}), 11),  # a shell around this rank
        (({"PMI_RANK": "0"}, None, {}), None),
        ((), None),
    ],
)
def test_ranks_of_one_host_are_known_by_who_started_them(
    ancestors: tuple[dict[str, str] | None, ...],
    starter: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(psutil, "Process", lambda: Process(1, *ancestors))
    port = FIRST_PORT + zlib.crc32(str(starter).encode()) % PORTS if starter else TORCH_PORT
    place = Place("PMI", 0, 4, 0, f"tcp://127.0.0.1:{port}", own_port=starter is not None)
    assert find_place(PMI) == place


# Two ranks, each in a shell of its own, as mpiexec of MPICH and Intel MPI starts them.
MPIEXEC = """
import os, subprocess, sys
ranks = []
for rank in range(2):
    place = {"PMI_RANK": f"{rank}", "PMI_SIZE": "2"}
    place |= {"MPI_LOCALRANKID": f"{rank}", "MPI_LOCALNRANKS": "2"}
    command = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, sys.argv[1]]
    ranks.append(subprocess.Popen(command, env=os.environ | place))
sys.exit(max(rank.wait() for rank in ranks))
"""


def test_two_jobs_of_pmi_run_on_one_host_at_the_same_time() -> None:
    command = [sys.executable, "-c", MPIEXEC, str(SCRIPT)]
    results = run_programs([command] * 2, [environment()] * 2)
    assert [result.returncode for result in results] == [0, 0], [r.stdout for r in results]
    for result in results:
        expect(result.stdout, "PMI", 2)


def test_srun_is_asked_where_it_speaks_pmi_too() -> None:
    found = find_place(slurm(PMI_RANK="3", PMI_SIZE="8", PMI_JOBID="17.0"))
    assert found.launcher == "Slurm"
    assert str(found.init_method).startswith("tcp://gpu07:")
    # Of Hydra, whose helpers srun has started.
    assert find_place(slurm(**{**PMI, "PMI_RANK": "3", "PMI_SIZE": "4"})).launcher == "PMI"
    assert find_place(slurm(**PMI | {"PMI_RANK": "3", "PMI_SIZE": "8", "MASTER_ADDR": "a"})) == (
        Place("PMI", 3, 8, 0, "tcp://a:29500", own_port=False)
    )


def test_a_port_that_is_taken_is_told_with_the_cure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code = "import rocecoll.launchers as l\n"
        code += f"l.FIRST_PORT, l.PORTS, l.TORCH_PORT = {port}, 1, {port}\nl.init()"
        variables = environment(**PMI)
        [result] = run_programs([[sys.executable, "-c", code]], [variables])
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1] == (
        "RuntimeError: rocecoll.init(): the port at which the ranks are to meet, "
        f"tcp://127.0.0.1:{port}, is taken, perhaps by another job on this host: set MASTER_PORT to "
        "a free one, the same for all ranks"
    )


def test_a_port_of_all_jobs_is_told_where_it_is_taken_or_nobody_comes() -> None:
    """Several hosts under PMI, which gives no job number."""
    several = {**PMI, "PMI_SIZE": "2", "MPI_LOCALNRANKS": "1", "MASTER_ADDR": "127.0.0.1"}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code = "import datetime, rocecoll.launchers as l\n"
        code += f"l.TORCH_PORT = {port}\nl.init(timeout=datetime.timedelta(seconds=1))"
        [result] = run_programs([[sys.executable, "-c", code]], [environment(**several)])
    why = (
        "without PMI_JOBID or PALS_APID or FLUX_JOB_ID PMI does not tell one job from another, so "
    )
    why += f"all meet at port {port}"
    assert f"is taken, perhaps by another job on this host; {why}: set MASTER_PORT" in result.stdout
    [result] = run_programs([[sys.executable, "-c", code]], [environment(**several)])
    assert (
        f"RuntimeError: rocecoll.init(): the ranks did not meet at tcp://127.0.0.1:{port}; {why}, "
        "and ranks of another one may be there: set MASTER_PORT to a free one, the same for all "
        "ranks ("
    ) in result.stdout


def test_no_launcher_makes_a_group_of_one() -> None:
    assert find_place({"MPI_HOME": "/opt", "SLURM_JOB_ID": "7"}) == Place("none", 0, 1, 0, None)
    code = "import logging, runpy, sys; logging.basicConfig()\n"
    code += "logging.getLogger('rocecoll').setLevel('INFO')\n"
    code += "runpy.run_path(sys.argv[1])"
    output = run_program([sys.executable, "-c", code, str(SCRIPT)])
    expect(output, "none", 1)
    [line] = [line for line in output.splitlines() if "no launcher" in line]
    assert line == (
        "INFO:rocecoll:rocecoll.init(): no launcher has started this process, so it is a group of one "
        "(rank 0 of 1); torchrun, mpirun or srun start several ranks"
    )
    expect(run_program([sys.executable, str(SCRIPT)]), "none", 1)


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        (
            ["RANK"],
            "RANK is set, but WORLD_SIZE and MASTER_ADDR and MASTER_PORT are not: start the",
        ),
        (
            ["MASTER_ADDR", "MASTER_PORT"],
            "MASTER_ADDR and MASTER_PORT are set, but RANK and WORLD_S",
        ),
        (
            ["OMPI_COMM_WORLD_RANK"],
            "OMPI_COMM_WORLD_RANK is set, but OMPI_COMM_WORLD_SIZE is not: ",
        ),
        (
            ["PMI_SIZE"],
            "PMI_SIZE is set, but PMI_RANK is not: start the program with torchrun, mpir",
        ),
        (
            ["SLURM_NTASKS"],
            "rocecoll.init(): SLURM_NTASKS is set, but SLURM_PROCID is not: start th",
        ),
    ],
)
def test_a_launcher_that_says_too_little(variables: list[str], told: str) -> None:
    with pytest.raises(RuntimeError, match=re.escape(told)):
        find_place(dict.fromkeys(variables, "1"))


def test_a_place_that_is_no_number() -> None:
    with pytest.raises(RuntimeError, match="WORLD_SIZE='two': accepted is a number"):
        find_place({"RANK": "0", "WORLD_SIZE": "two"})


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
