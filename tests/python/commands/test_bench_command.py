# SPDX-License-Identifier: Apache-2.0
"""rocecoll bench: on its own ranks and on those of launchers, what it refuses, and which rank is
blamed."""

from __future__ import annotations

import importlib.util
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from launch import end_tree, environment, free_port, run_program, run_programs, without_numpy
from namespaces import Host, run_on_hosts
from typer.testing import CliRunner, Result

from rocecoll.bench import local_ranks
from rocecoll.bench.operations import PLACES
from rocecoll.bench.report import Collector
from rocecoll.cli.app import app

BENCH = [sys.executable, "-m", "rocecoll", "bench"]
AS_MODULE = [sys.executable, "-m", "rocecoll.bench"]
SHORT = ["-b", "8", "-e", "8", "--rounds", "1", "--block-s", "0.01"]
LIMIT_S = 300


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"]
    for row in rows:
        for peer in row["peers"].values():
            assert peer["wrong"] == 0 and not peer["gave_up"], row
            assert 0 < peer["p50_us"] <= peer["p99_us"]
    return rows


# On the command's own ranks.


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.nightly)])
def test_every_operation_on_this_host(ranks: int, tmp_path: Path) -> None:
    report = tmp_path / "rows.json"
    sizes = ["-b", "1", "-e", "1001", "-f", "1001"]  # less than one element a rank, and odd
    command = [*BENCH, "--all", *sizes, "--rounds", "1", "--block-s", "0.01"]
    output = run_program([*command, "--ranks", str(ranks), "--output", str(report)], COLUMNS="80")
    lines = output.splitlines()
    assert lines[0] == f"{ranks} ranks on one host, over shm: 1 round, bandwidths in GB/s"
    assert {"all_reduce, float32 sum, in place", "barrier"} <= set(lines)
    assert max(map(len, lines)) <= 80
    rows = rows_of(report)
    assert [row["operation"] for row in rows if row["bytes"] == 0] == ["barrier"]
    assert len(rows) == 2 * (len(PLACES) - 1) + 1
    for row in rows:
        assert (row["ranks"], row["hosts"]) == (ranks, 1)
        assert set(row["peers"]) == {"rocecoll", "gloo"}


@pytest.mark.nightly
def test_torch_without_numpy_will_do(tmp_path: Path) -> None:
    output = run_program([*BENCH, *SHORT, "--json"], **without_numpy(tmp_path))
    written = json.loads(output[output.index("{\n") :])  # torch warns of it
    assert written["ways"] == ["shm"]
    assert list(written["rows"][0]["peers"]) == ["rocecoll", "gloo"]


def test_without_a_peer_and_json_in_place_of_the_table(tmp_path: Path) -> None:
    report = tmp_path / "rows.json"
    command = [*AS_MODULE, *SHORT, "--vs", "none", "--json", "--output", str(report)]
    output = run_program(command, ROCECOLL_SHM="0")
    written = json.loads(output)
    assert written == json.loads(report.read_text())
    assert list(written["rows"][0]["peers"]) == ["rocecoll"]
    assert (written["rounds"], written["options"]) == (1, {"shm": "0"})
    assert written["ways"] == ["udp"]
    assert {"processor", "kernel", "torch", "rocecoll"} <= set(written["machine"])


@pytest.mark.nightly
def test_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    picture = tmp_path / "out.svg"
    output = run_program([*BENCH, *SHORT, "--ranks", "1", "--plot", str(picture)])
    assert output.startswith("1 rank: 1 round")
    assert "1 rank, all_reduce, float32 sum, in place" in picture.read_text()


@pytest.mark.nightly
def test_ranks_import_what_the_command_does(tmp_path: Path) -> None:
    """Not what lies in the current directory, where the installed command does not look either."""
    here, program = tmp_path / "here" / "rocecoll", tmp_path / "program.py"
    here.mkdir(parents=True)
    (here / "__init__.py").write_text("raise SystemExit('the wrong package')")
    program.write_text("from rocecoll.cli.app import main\nmain()\n")  # as pip writes the script
    command = [sys.executable, str(program), "bench", *SHORT]
    code = f"import os; os.chdir({str(here.parent)!r}); os.execv({command[0]!r}, {command!r})"
    assert run_program([sys.executable, "-c", code]).startswith("2 ranks on one host")


def ranks_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    found = []
    for child in psutil.Process(process.pid).children():
        if "rocecoll.bench.rank" in " ".join(child.cmdline()):
            found.append(child)
    return sorted(found, key=lambda rank: rank.environ()["RANK"])


@contextmanager
def long_run(ranks: int) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """The command and its ranks, once they have started. None of them outlives the block."""
    command = [*BENCH, "--rounds", "10000", "--ranks", str(ranks)]
    process = subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        deadline = time.monotonic() + LIMIT_S
        while len(found := ranks_of(process)) < ranks:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        yield process, found
    finally:
        if process.poll() is None:
            print(end_tree(process))
    assert not any(rank.is_running() for rank in found)


def test_a_rank_that_is_killed_is_named() -> None:
    with long_run(3) as (process, ranks):
        ranks[1].kill()
        output, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1, output
    assert output.splitlines()[-1] == "rocecoll bench: rank 1 was killed by SIGKILL"


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)]
)
def test_an_interrupted_run_ends_its_ranks(number: signal.Signals) -> None:
    with long_run(2) as (process, _):
        process.send_signal(number)
        output, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + number, output


STARTS_ONE = """
import os, signal, subprocess
from rocecoll.bench import local_ranks

def start(report):
    rank = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(rank.pid, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    return [rank]

local_ranks.end_in_order()
local_ranks.measure(start, None)
"""


def test_a_run_that_is_interrupted_while_it_starts_ends_its_ranks() -> None:
    [result] = run_programs([[sys.executable, "-c", STARTS_ONE]], [environment()])
    assert result.returncode == 128 + signal.SIGTERM, result.stdout
    assert not psutil.pid_exists(int(result.stdout))


# On the ranks of a launcher.


def test_under_torchrun(tmp_path: Path) -> None:
    report = tmp_path / "rows.json"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    program = ["--nproc-per-node", "2", "-m", "rocecoll.bench", *SHORT, "--output", str(report)]
    output = run_program([*launcher, *program, "--op", "broadcast", "-d", "int8", "--ranks", "2"])
    assert output.count("2 ranks on one host, over shm: 1 round") == 1
    [row] = rows_of(report)
    assert (row["operation"], row["data_type"]) == ("broadcast", "int8")
    assert set(row["peers"]) == {"rocecoll", "gloo"}


@pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed")
def test_under_mpirun() -> None:
    launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"]
    assert "2 ranks on one host" in run_program([*launcher, *AS_MODULE, *SHORT, "--vs", "none"])


def test_two_hosts_under_torchrun(hosts: tuple[Host, ...], tmp_path: Path) -> None:
    report = tmp_path / "rows.json"
    meeting = ["--master-addr", hosts[0].ipv4, "--master-port", "29500"]
    program = ["--nproc-per-node", "2", "-m", "rocecoll.bench", *SHORT, "--output", str(report)]
    launcher = ["-m", "torch.distributed.run", "--nnodes", "2", *meeting]
    commands = [[*launcher, "--node-rank", str(host), *program] for host in (0, 1)]
    first, second = run_on_hosts(hosts, 1, commands)
    assert (first.returncode, second.returncode) == (0, 0), first.stdout + second.stdout
    assert "2 hosts with 2 ranks each, over shm and udp: 1 round" in first.stdout
    assert "of its packets again" in first.stdout
    assert "2 hosts" not in second.stdout
    [row] = rows_of(report)
    assert (row["network"], row["ranks"], row["hosts"]) == ("hosts", 4, 2)


def by_hand(*commands: list[str]) -> list[subprocess.CompletedProcess[str]]:
    """A rank for each command."""
    common = {"WORLD_SIZE": str(len(commands)), "MASTER_ADDR": "127.0.0.1"}
    common["MASTER_PORT"] = str(free_port())
    places = [environment(RANK=str(rank), **common) for rank in range(len(commands))]
    return run_programs(commands, places, LIMIT_S)


DIES = """
import os, runpy, sys
from rocecoll.bench import turns
turns.Contender.finish = lambda self: os._exit(9)
runpy.run_module("rocecoll.bench", run_name="__main__")
"""


@pytest.mark.parametrize("versus", ["none", pytest.param("gloo", marks=pytest.mark.nightly)])
def test_ranks_that_are_left_name_the_one_that_died(versus: str) -> None:
    options = [*SHORT, "--vs", versus]
    left, dead = by_hand([*AS_MODULE, *options], [sys.executable, "-c", DIES, *options])
    assert (left.returncode, dead.returncode) == (local_ranks.LOST_OTHERS, 9), left.stdout
    assert "rocecoll bench: rank 0 cannot go on: rocecoll: group" in left.stdout
    assert "lost rank 1 (" in left.stdout


def test_a_rank_with_other_arguments_is_named() -> None:
    results = by_hand([*AS_MODULE, *SHORT], [*AS_MODULE, *SHORT], [*AS_MODULE, *SHORT, "-e", "64"])
    assert [result.returncode for result in results] == [2, 2, 2]
    assert "rank 2 was started with other arguments than rank 0" in results[0].stdout
    assert "rank 2" not in results[1].stdout


def test_what_rank_0_cannot_write_ends_all_ranks() -> None:
    command = [*AS_MODULE, *SHORT, "--output", "/no/such/rows.json"]
    first, second = by_hand(command, command)
    assert (first.returncode, second.returncode) == (2, 2)
    assert "rank 0: cannot write /no/such/rows.json" in first.stdout
    assert "cannot write" not in second.stdout


# Without ranks.


def invoke(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(app, ["bench", *arguments], env={"COLUMNS": "80", **env})


@pytest.mark.quick
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--op", "all_reduced"], "'all_reduced' is not one of 'all_reduce', 'reduce'"),
        (["-d", "float31"], "'float31' is not one of"),
        (["-b", "0"], "no sizes from 0 to 16777216"),
        (["-b", "1K", "-e", "8"], "no sizes from 1024 to 8"),
        (["-e", "8x"], "'8x' is no size"),
        (["--vs", "rocecoll"], "--vs rocecoll: accepted are names of other backends"),
        (["--vs", "gloo,glue"], "this torch has no backend 'glue': it has"),
        (["--op", "gather", "--place", "in"], "nothing is left to measure: gather"),
        (["--op", "send_recv", "--ranks", "1"], "one rank has nobody to send to"),
        (
            ["--output", "/no/such/rows.json"],
            "cannot write /no/such/rows.json: there is no directory",
        ),
        (["--output", "/tmp"], "cannot write /tmp: it is a directory"),
        (["--plot", "out.txt"], "--plot out.txt: "),
        (["--plot", "out.svg", "--op", "barrier"], "--plot out.svg: "),
    ],
)
def test_what_is_refused_before_a_rank_starts(
    options: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_ranks, "start", lambda *_: pytest.fail("a rank was started"))
    result = invoke(*options)
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())


@pytest.mark.quick
def test_ranks_of_a_launcher_and_others_are_refused() -> None:
    result = invoke("--ranks", "3", RANK="1", WORLD_SIZE="2")
    assert result.exit_code == 2
    assert "--ranks 3, but this is rank 1 of 2 of torch" in " ".join(result.output.split())
    result = invoke(SLURM_NTASKS="2")
    assert result.exit_code == 2
    assert "SLURM_NTASKS is set, but SLURM_PROCID" in result.output
    assert "With --ranks N it starts N on this host" in result.output


@pytest.mark.quick
def test_a_bad_option_is_refused() -> None:
    result = invoke(ROCECOLL_LANE_BYTES="many")
    assert result.exit_code == 2
    assert "ROCECOLL_LANE_BYTES='many': accepted is" in result.output


@pytest.mark.quick
def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = invoke("--plot", "out.svg")
    assert result.exit_code == 2
    assert "pictures need matplotlib, which is not installed" in " ".join(result.output.split())


def told(wrong: int, gave_up: bool) -> Callable[[Any, Collector], None]:
    def measure(start: Any, collector: Collector) -> None:
        for peer in ("rocecoll", "gloo"):
            block = {"times_us": [7.0], "seconds": 1.0, "gave_up": gave_up and peer == "rocecoll"}
            for _ in range(2):
                collector.take({"case": 0, "peer": peer, "block": block})
        collector.take({"case": 0, "wrong": {"rocecoll": wrong, "gloo": 0}})

    return measure


@pytest.mark.quick
@pytest.mark.parametrize(
    ("wrong", "gave_up", "problem"),
    [
        (0, False, ""),
        (3, False, "all_reduce, float32 sum, in place, 8 B: rocecoll got 3 elements wrong"),
        (0, True, "all_reduce, float32 sum, in place, 8 B: rocecoll gave up"),
    ],
)
def test_the_exit_status_is_the_verdict(
    wrong: int, gave_up: bool, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_ranks, "measure", told(wrong, gave_up))
    monkeypatch.setattr(local_ranks, "end_in_order", lambda: None)
    result = invoke("-e", "8")
    assert result.exit_code == (1 if problem else 0), result.output
    assert problem in result.output
    assert ("rocecoll bench: " in result.output) == bool(problem)


@pytest.mark.quick
def test_a_file_that_cannot_be_written_costs_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_ranks, "measure", told(0, False))
    monkeypatch.setattr(local_ranks, "end_in_order", lambda: None)
    result = invoke("-e", "8", "--output", "/dev/full")
    assert result.exit_code == 1
    assert result.output.startswith("2 ranks on one host: 1 round")
    assert "cannot write /dev/full: No space left on device" in result.output


@pytest.mark.quick
def test_the_command_line_does_not_load_torch() -> None:
    code = "import sys, rocecoll.cli.app; print('torch' in sys.modules)"
    assert run_program([sys.executable, "-c", code], fresh=True) == "False\n"


@pytest.mark.quick
def test_the_module_is_the_command() -> None:
    assert run_program([*AS_MODULE, "--help"]) == run_program([*BENCH, "--help"])
