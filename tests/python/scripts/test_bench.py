# SPDX-License-Identifier: Apache-2.0
"""./scripts/bench: where its ranks run, and one small run of everything."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from launch import ROOT, environment, run_programs
from typer.testing import CliRunner

sys.path.append(str(ROOT / "scripts"))

import bench
from benchmarks import (
    cache_line,
    commands,
    launcher,
    machine,
    mpi_peer,
    network_spec,
    networks,
    page,
    sweep,
    tables,
)

from rocecoll.bench import plot, results
from rocecoll.bench.operations import PLACES, REDUCING, Case, DataType, Operation, Place, Reduction
from rocecoll.bench.results import Block, Row

BENCH = [sys.executable, str(ROOT / "scripts" / "bench.py")]
LIMIT_S = 300


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = environment(PYTHONPATH=str(ROOT), **variables)
    return run_programs([[*BENCH, *arguments]], [env], LIMIT_S)[0]


def case(
    operation: Operation = Operation.all_reduce,
    size_bytes: int = 1024,
    data_type: DataType = DataType.float32,
    reduction: Reduction = Reduction.sum,
    place: Place = Place.in_place,
) -> Case:
    return Case(operation, size_bytes, data_type, reduction, place)


@pytest.mark.quick
def test_a_page_has_machine_command_and_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = {who: [Block([1000], 0.001)] * 2 for who in ("rocecoll", "gloo")}
    wrong = dict.fromkeys(blocks, 0)
    rows = [
        Row(name, 2, case(size_bytes=8), blocks, wrong, hosts)
        for name, hosts in (("host", 1), ("veth:mtu=9000", 2))
    ]
    monkeypatch.setattr(sys, "argv", ["bench.py", "--op", "all_reduce"])
    page.write(
        path := tmp_path / "page.md",
        machine.facts("reno", cache_line.words([60.4, None, 351.6])),
        rows,
    )
    text = path.read_text()
    assert f"| cores | {len(os.sched_getaffinity(0))} |" in text
    assert "| tcp_congestion_control | reno |" in text
    assert "| cache_line_round_trip | 60, then 352 ns |" in text
    assert re.search(r"\| torch_call \| \d+\.\d us \|", text)
    assert "```\n./scripts/bench --op all_reduce\n```" in text
    assert "## 2 ranks on one host\n" in text and "## 2 hosts, veth:mtu=9000\n" in text
    assert text.count("| gloo | 1000 | 1000 |") == 2


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_cache_line_comes_back() -> None:
    taken = cache_line.round_trip_ns()
    assert taken is not None and taken > 1  # light goes no farther than a core in a nanosecond


@pytest.mark.quick
def test_a_command_that_fails_is_told_in_its_own_words() -> None:
    assert commands.run("echo", "fine") == "fine\n"
    with pytest.raises(commands.CommandError, match="no-such-compiler is not installed"):
        commands.run("no-such-compiler", "x.cc")
    with pytest.raises(commands.CommandError, match="sh -c echo why >&2; exit 3: why"):
        commands.run("sh", "-c", "echo why >&2; exit 3")


@pytest.mark.quick
def test_one_core_has_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert cache_line.words([cache_line.round_trip_ns()]) == "unknown"


# Real runs.


def test_calls_after_computing_beside_what_torch_itself_takes(tmp_path: Path) -> None:
    report = tmp_path / "rows.json"
    options = ["-b", "8", "-e", "8", "--after", "0,2.5", "--vs", "torch-call", "--rounds", "1"]
    result = run(*options, "--block-s", "0.02", "--output", str(report))
    assert result.returncode == 0, result.stdout
    assert "2 ranks on one host, each call after 2.5 ms of computing" in result.stdout
    rows = json.loads(report.read_text())["rows"]
    assert [row["after_ms"] for row in rows] == [0, 2.5]
    for row in rows:
        assert set(row["peers"]) == {"rocecoll", "torch-call"}
        for peer in row["peers"].values():
            assert peer["wrong"] == 0
            assert 0 < peer["p50_us"] <= peer["p95_us"] <= peer["p99_us"]


@pytest.mark.quick
@pytest.mark.parametrize("text", ["soon", "-1", "2,,3", "nan", "1e9"])
def test_times_of_computing_that_are_none(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        bench.pauses(text)


@pytest.mark.nightly
def test_every_operation_runs_and_is_right(tmp_path: Path) -> None:
    report = tmp_path / "rows.json"
    options = ["--all", "-b", "8", "-e", "4K", "-f", "512", "--place", "in", "--place", "out"]
    result = run(*options, "--rounds", "1", "--block-s", "0.01", "--output", str(report))
    assert result.returncode == 0, result.stdout
    written = json.loads(report.read_text())
    assert "--block-s 0.01" in written["machine"]["command"]
    rows = written["rows"]
    expected = 1 + 2 * sum(len(PLACES[one]) for one in Operation if one is not Operation.barrier)
    assert len(rows) == expected
    for row in rows:
        assert set(row["peers"]) == {"rocecoll", "gloo"}, row
        for peer in row["peers"].values():
            assert peer["wrong"] == 0 and not peer["gave_up"], row
            assert 0 < peer["p50_us"] <= peer["p99_us"]
            assert len(peer["block_medians_us"]) == 2


@pytest.mark.nightly
def test_types_and_reductions_and_three_ranks(tmp_path: Path) -> None:
    report = tmp_path / "rows.json"
    options = ["-b", "1000", "-e", "1000", "--rounds", "1", "--block-s", "0.01", "--ranks", "3"]
    for name in ("bfloat16", "int8", "float64"):
        options += ["-d", name]
    for name in ("prod", "avg", "min"):
        options += ["-o", name]
    result = run(*options, "--op", "reduce_scatter", "--output", str(report))
    assert result.returncode == 0, result.stdout
    rows = json.loads(report.read_text())["rows"]
    assert len(rows) == 9
    for row in rows:
        # gloo has neither the mean nor bfloat16.
        alone = row["reduction"] == "avg" or row["data_type"] == "bfloat16"
        assert set(row["peers"]) == ({"rocecoll"} if alone else {"rocecoll", "gloo"})
        assert all(peer["wrong"] == 0 for peer in row["peers"].values())


@pytest.mark.nightly
def test_openmpi_and_the_core_take_turns_in_the_same_processes(tmp_path: Path) -> None:
    report = tmp_path / "rows.json"
    options = [
        "--all",
        "--vs",
        "core,mpi",
        "-b",
        "4K",
        "-e",
        "4K",
        "-d",
        "float32",
        "-d",
        "float16",
    ]
    options += ["--place", "in", "--place", "out", "--rounds", "1", "--block-s", "0.01"]
    result = run(*options, "--output", str(report))
    assert result.returncode == 0, result.stdout
    for row in json.loads(report.read_text())["rows"]:
        reduces = Operation(row["operation"]) in REDUCING
        lacking = reduces and row["data_type"] == "float16"
        lacking |= row["operation"] == "reduce_scatter" and row["place"] == "in"
        assert set(row["peers"]) == {"rocecoll", "core"} | (set() if lacking else {"mpi"}), row
        assert all(peer["wrong"] == 0 for peer in row["peers"].values()), row


def openmpi_has_ucx() -> bool:
    words = ["ompi_info", "--parsable"]
    said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    return "mca:pml:ucx:" in said


@pytest.mark.skipif(not shutil.which("ompi_info"), reason="OpenMPI is not installed")
@pytest.mark.parametrize(
    ("where", "carried_by"),
    [("host", r"tag\((posix|sysv)/memory"), ("host:udp", r"tag\(tcp/lo")],
)
@pytest.mark.nightly
def test_ucx_carries_what_openmpi_hands_it(where: str, carried_by: str, tmp_path: Path) -> None:
    if not openmpi_has_ucx():
        pytest.skip("this OpenMPI was built without UCX")
    report = tmp_path / "rows.json"
    options = ["--network", where, "-b", "4", "-e", "1M", "-f", "512", "--vs", "mpi-shm,mpi-ucx"]
    options += ["--rounds", "1", "--block-s", "0.01", "--output", str(report)]
    result = run(*options, UCX_LOG_LEVEL="info")
    assert result.returncode == 0, result.stdout
    assert f"{results.where(where, 2, 1)}, beside mpi-ucx: 1 rounds" in result.stdout
    rows = json.loads(report.read_text())["rows"]
    others = [name for row in rows for name in row["peers"] if name != "rocecoll"]
    assert others == ["mpi-shm"] * 3 + ["mpi-ucx"] * 3
    assert all(peer["wrong"] == 0 for row in rows for peer in row["peers"].values())
    # UCX's own words: each rank writes a line for its peer, and another one for itself.
    to_peers = re.findall(r"ep_cfg\[\d\]: (?!tag\(self/)(.+)", result.stdout)
    assert len(to_peers) == 2, result.stdout
    assert all(re.match(carried_by, way) for way in to_peers), to_peers


@pytest.mark.nightly
def test_the_limit_program_sums(tmp_path: Path) -> None:
    report = tmp_path / "rows.json"
    options = ["--op", "all_reduce", "--op", "broadcast", "-b", "4", "-e", "4M", "-f", "32"]
    options += ["--vs", "none", "--limit", "udp", "--rounds", "1", "--block-s", "0.01"]
    result = run(*options, "--output", str(report))
    assert result.returncode == 0, result.stdout
    for row in json.loads(report.read_text())["rows"]:
        reduces = row["operation"] == "all_reduce"
        assert set(row["peers"]) == ({"rocecoll", "raw-udp"} if reduces else {"rocecoll"})
        assert all(peer["wrong"] == 0 and not peer["gave_up"] for peer in row["peers"].values())


@pytest.mark.nightly
def test_a_sweep_measures_every_algorithm(tmp_path: Path) -> None:
    report = tmp_path / "rows.json"
    options = ["--sweep", "--op", "all_reduce", "--op", "send_recv", "-b", "4K", "-e", "4K"]
    options += ["--ranks", "2", "--ranks", "3", "--rounds", "1", "--block-s", "0.01"]
    result = run(*options, "--output", str(report))
    assert result.returncode == 0, result.stdout
    assert "The chosen algorithm beside the best" in result.stdout
    two, _, three, _ = (row["peers"] for row in json.loads(report.read_text())["rows"])
    assert {"rocecoll", "all_reduce:ring", "all_reduce:halving_doubling"} < set(two)
    assert set(two) - set(three) == {"all_reduce:halving_doubling"}
    assert all(peer["wrong"] == 0 for peer in (two | three).values())


@pytest.mark.quick
def test_a_choice_is_bad_if_every_round_says_so() -> None:
    def row(*ring: float) -> Row:
        times = {"rocecoll": (2.0,) * 4, "all_reduce:ring": ring, "all_reduce:other": (3.0,) * 4}
        blocks = {who: [Block([time * 1e6], time) for time in some] for who, some in times.items()}
        return Row("host", 2, case(), blocks)

    bad = sweep.choice(row(1.0, 1.0, 1.6, 1.6))
    assert (bad.best, bad.ratio) == ("ring", pytest.approx(2 / 1.3))
    assert (bad.least, bad.most, bad.is_good) == (pytest.approx(1.25), pytest.approx(2), False)
    assert sweep.choice(row(1.0, 1.0, 2.0, 2.0)).is_good
    assert sweep.table([row(1.0, 1.0, 2.0, 2.0)]).row_count == 1


@pytest.mark.quick
def test_peers_stay_where_they_can_run() -> None:
    def peers(name: str, ranks: int, *named: str) -> list[str]:
        plan = launcher.Plan([case()], ["gloo", *named], 1, 0.1)
        [there] = plan.on(launcher.world(name, ranks))
        return there.peers

    assert peers("host", 2, "mpi", "raw-udp") == ["gloo", "mpi", "raw-udp"]
    assert peers("host", 4, "mpi", "raw-udp") == ["gloo", "mpi"]
    assert peers("host", 2, "mpi", "mpi-shm") == ["gloo", "mpi-shm"]
    assert peers("host:udp", 2, "mpi", "mpi-shm") == ["gloo", "mpi"]
    assert peers("host:udp", 2, "mpi-shm") == ["gloo", "mpi-shm"]
    assert peers("veth:mtu=9000", 2, "mpi", "mpi-shm", "raw-udp") == ["gloo", "raw-udp"]
    assert peers("veth", 4, "raw-udp") == ["gloo"]
    assert peers("veth:delay=5ms", 2, "raw-udp") == ["gloo", "raw-udp"]
    for name in ("veth:loss=1", "veth:rate=1gbit", "veth:delay=5ms,reorder=1"):
        assert peers(name, 2, "mpi", "raw-udp") == ["gloo"]
    ring = launcher.Plan([case(Operation.send_recv), case()], [], 1, 0.1)
    [two] = ring.on(launcher.world("host", 2))
    assert len(two.cases) == 2
    [alone] = ring.on(launcher.world("host", 1))
    assert [one.operation for one in alone.cases] == [Operation.all_reduce]


@pytest.mark.quick
def test_each_openmpi_has_processes_of_its_own() -> None:
    plan = launcher.Plan([case()], ["gloo", "mpi", "mpi-shm", "mpi-ucx"], 1, 0.1)

    def parts(name: str) -> list[tuple[list[str], str]]:
        return [(part.peers, part.beside) for part in plan.on(launcher.world(name, 2))]

    assert parts("host") == [(["gloo", "mpi-shm"], ""), (["mpi-ucx"], "mpi-ucx")]
    assert parts("host:udp") == [(["gloo", "mpi"], ""), (["mpi-ucx"], "mpi-ucx")]
    assert parts("veth") == [(["gloo"], "")]


@pytest.mark.quick
def test_a_second_openmpi_has_tables_and_pictures_of_its_own() -> None:
    def row(peer: str, beside: str) -> Row:
        blocks = {who: [Block([1000], 0.001)] * 2 for who in ("rocecoll", peer)}
        return Row("host", 2, case(), blocks, dict.fromkeys(blocks, 0), beside=beside)

    rows = [row("mpi-shm", ""), row("mpi-ucx", "mpi-ucx")]
    titles = ["2 ranks on one host", "2 ranks on one host, beside mpi-ucx"]
    assert [group.title for group in tables.groups(rows)] == titles
    assert len(plot.curves(rows)) == 2


@pytest.mark.quick
def test_each_number_of_ranks_on_each_network() -> None:
    found = bench.worlds(["host", "host:udp", "veth"], [2, 4])
    names = [there.where() for there in found]
    assert names == [
        "2 ranks on one host",
        "4 ranks on one host",
        "2 ranks on one host, over UDP",
        "4 ranks on one host, over UDP",
        "2 hosts, veth",
        "2 hosts with 2 ranks each, veth",
    ]
    with pytest.raises(network_spec.NetworkError, match="3 ranks are not equally many on 2 hosts"):
        bench.worlds(["veth"], [3])


@pytest.mark.quick
def test_ranks_of_a_network_are_dealt_host_by_host() -> None:
    plan = launcher.Plan([case()], [], 1, 0.1)
    there = launcher.world("veth", 4)
    network = networks.Network(("a", "b"), ((), ()))
    started = launcher.processes(plan, there, network, ["program"])
    assert [command[3] for command, _ in started] == ["a", "a", "b", "b"]
    assert [env["RANK"] for _, env in started] == ["0", "1", "2", "3"]
    assert [env["LOCAL_RANK"] for _, env in started] == ["0", "1", "0", "1"]
    assert {env["LOCAL_WORLD_SIZE"] for _, env in started} == {"2"}
    udp = launcher.processes(plan, launcher.world("host:udp", 2), None, ["program"])
    assert {env["ROCECOLL_TRANSPORT"] for _, env in udp} == {"udp"}


@pytest.mark.quick
@pytest.mark.parametrize(
    ("cores", "name", "spins"),
    [
        (2, "veth", True),
        (2, "veth:delay=1ms", False),
        (3, "veth:delay=1ms", True),
        (1, "veth", False),
    ],
)
def test_ranks_leave_processors_to_what_their_network_needs(
    monkeypatch: pytest.MonkeyPatch, cores: int, name: str, spins: bool
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    network = networks.Network(("a", "b"), ((), ()))
    plan = launcher.Plan([case()], [], 1, 0.1)
    started = launcher.processes(plan, launcher.world(name, 2), network, ["program"])
    assert {env.get("ROCECOLL_SPIN_US") for _, env in started} == {None if spins else "0"}


@pytest.mark.quick
def test_ucx_takes_memory_or_network_as_rocecoll_does() -> None:
    plan = launcher.Plan([case()], ["mpi-ucx"], 1, 0.1)
    for name, ways in (("host", "posix,sysv,cma,self"), ("host:udp", "tcp,self")):
        [(command, env)] = launcher.processes(plan, launcher.world(name, 2), None, ["program"])
        assert command[command.index("pml") + 1] == "ucx"
        assert env["UCX_TLS"] == ways
    assert "UCX_TLS" not in mpi_peer.environment("mpi", over_network=True)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--vs", "nccl"], "'nccl' is no peer"),
        (["-b", "1K", "-e", "8"], "no sizes from 1024 to 8"),
        (["--network", "veth:loss=100"], "'veth:loss=100' is no network"),
        (["--limit", "perftest"], "takes --transport"),
    ],
)
def test_what_is_refused(options: list[str], message: str) -> None:
    app = typer.Typer()
    app.command()(bench.main)
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())
