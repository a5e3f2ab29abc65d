# SPDX-License-Identifier: Apache-2.0
"""./scripts/bench: its sizes, sums and known numbers, and one small run of everything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import typer
from launch import ROOT, environment, run_programs
from typer.testing import CliRunner

sys.path.append(str(ROOT / "scripts"))

import bench
from benchmarks import (
    buffers,
    launcher,
    machine,
    networks,
    operations,
    page,
    plot,
    sizes,
    sweep,
    tables,
)
from benchmarks.buffers import Buffers
from benchmarks.operations import PLACES, Case, DataType, Operation, Place, Reduction
from benchmarks.results import Block, Row, figures

BENCH = [sys.executable, str(ROOT / "scripts" / "bench.py")]
LIMIT_S = 300


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = environment(PYTHONPATH=str(ROOT))
    return run_programs([[*BENCH, *arguments]], [env], LIMIT_S)[0]


def case(
    operation: Operation = Operation.all_reduce,
    size_bytes: int = 1024,
    data_type: DataType = DataType.float32,
    reduction: Reduction = Reduction.sum,
    place: Place = Place.in_place,
) -> Case:
    return Case(operation, size_bytes, data_type, reduction, place)


# Sizes, and what is done.


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "number"),
    [("8", 8), ("64K", 65536), ("1m", 1 << 20), ("2GiB", 2 << 30), ("3kb", 3072)],
)
def test_sizes_are_read(text: str, number: int) -> None:
    assert sizes.parse(text) == number


@pytest.mark.quick
def test_steps_of_sizes() -> None:
    assert sizes.steps(8, 600, 8) == [8, 64, 512]
    assert sizes.steps(8, 8, 2) == [8]
    for wrong in ((16, 8, 2), (0, 8, 2), (8, 16, 1)):
        with pytest.raises(ValueError, match="no sizes"):
            sizes.steps(*wrong)
    with pytest.raises(ValueError, match="'8x' is no size"):
        sizes.parse("8x")


@pytest.mark.quick
def test_every_combination_that_there_is() -> None:
    made = operations.cases(
        [Operation.all_reduce, Operation.broadcast, Operation.barrier],
        [8, 64],
        [DataType.float32, DataType.int8],
        [Reduction.sum, Reduction.max],
        list(Place),
    )
    by_operation = {
        operation: [one for one in made if one.operation is operation] for operation in Operation
    }
    assert len(by_operation[Operation.all_reduce]) == 2 * 2 * 2 * 2
    assert len(by_operation[Operation.broadcast]) == 2 * 2  # in place alone, and reduces nothing
    assert len(made) == len(set(made))
    assert case(size_bytes=10, operation=Operation.all_gather).bytes(4) == 16  # one element each


# Known numbers.


def called(operation: Operation, all_ranks: list[Buffers]) -> None:
    """What the operation has to do, with the buffers of all ranks at hand."""
    ranks = len(all_ranks)
    given = [one.input.clone() for one in all_ranks]
    kind = all_ranks[0].case.reduction
    if operation in operations.REDUCING:
        whole = torch.stack(given)
        result = {
            Reduction.sum: lambda: whole.sum(0),
            Reduction.prod: lambda: whole.prod(0),
            Reduction.min: lambda: whole.amin(0),
            Reduction.max: lambda: whole.amax(0),
            Reduction.avg: lambda: (whole / ranks).sum(0),
        }[kind]()
    for rank, one in enumerate(all_ranks):
        block = slice(rank * one.block, (rank + 1) * one.block)
        if operation in (Operation.all_reduce, Operation.reduce):
            one.output.copy_(result)
        elif operation is Operation.reduce_scatter:
            one.output.copy_(result[block])
        elif operation is Operation.broadcast:
            one.output.copy_(given[buffers.ROOT])
        elif operation in (Operation.all_gather, Operation.gather):
            one.output.copy_(torch.cat(given)[: len(one.output)])
        elif operation is Operation.all_to_all:
            one.output.copy_(torch.cat([other[block] for other in given]))
        elif operation is Operation.scatter:
            one.output.copy_(given[buffers.ROOT][block])
        elif operation is Operation.send_recv:
            one.output.copy_(given[rank - 1])


@pytest.mark.quick
@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("operation", list(Operation))
def test_what_comes_out_is_known(operation: Operation, ranks: int) -> None:
    for place in PLACES[operation]:
        for reduction in Reduction:
            one = case(operation, 256, reduction=reduction, place=place)
            all_ranks = [Buffers(one, rank, ranks) for rank in range(ranks)]
            for mine in all_ranks:
                mine.fill()
            called(operation, all_ranks)
            assert [mine.wrong() for mine in all_ranks] == [0] * ranks
            for mine in all_ranks[:1] if len(all_ranks[0].output) else []:
                mine.output[-1] += 1
                assert mine.wrong() == 1
                mine.output[-1] -= 1
                if len(mine.output) > 3:
                    mine.output.copy_(mine.output.roll(1))  # all there, and in the wrong place
                    assert mine.wrong() > 0 or len(mine.output.unique()) == 1


# Figures.


@pytest.mark.quick
def test_bandwidths_are_those_of_nccl_tests() -> None:
    blocks = [Block([1000] * 3, 0.003, cpu_s=0.012)]
    size = 1_000_000
    found = {
        operation: figures(blocks, case(operation, size, DataType.int8), 4)
        for operation in Operation
    }
    assert found[Operation.all_reduce].algbw_gb_s == pytest.approx(1)
    assert found[Operation.all_reduce].busbw_gb_s == pytest.approx(1.5)
    assert found[Operation.all_gather].busbw_gb_s == pytest.approx(0.75)
    assert found[Operation.reduce_scatter].busbw_gb_s == pytest.approx(0.75)
    assert found[Operation.broadcast].busbw_gb_s == pytest.approx(1)
    assert found[Operation.send_recv].busbw_gb_s == pytest.approx(1)
    assert found[Operation.all_reduce].cpu_s_per_gb == pytest.approx(1)  # of each of four
    assert found[Operation.barrier].cpu_s_per_gb is None


@pytest.mark.quick
def test_percentiles_are_of_all_blocks() -> None:
    blocks = [Block([1000] * 60, 0.06), Block([1000] * 38 + [5000] * 2, 0.048)]
    found = figures(blocks, case(), 2)
    assert (found.p50_us, found.p99_us) == pytest.approx((1000, 5000))
    assert found.operations == 100


@pytest.mark.quick
def test_a_ratio_is_of_medians_and_tells_its_rounds() -> None:
    blocks = {
        "rocecoll": [Block([time * 1e6], time) for time in (1.0, 1.0, 2.0, 2.0)],
        "gloo": [Block([time * 1e6], time) for time in (2.0, 2.0, 2.0, 2.0)],
    }
    row = Row("host", 2, case(), blocks, {"rocecoll": 0, "gloo": 3})
    ratio = row.ratio("gloo")
    assert (ratio.of_medians, ratio.least, ratio.most) == pytest.approx((2 / 1.5, 1, 2))
    assert row.json()["peers"]["gloo"]["wrong"] == 3
    [table] = tables.tables([row])
    assert table.row_count == 2


@pytest.mark.quick
def test_whoever_gives_up_has_bounds() -> None:
    blocks = [Block([5e5] * 3, 2.0), Block([], 20.0, gave_up=True)]
    found = figures(blocks, case(size_bytes=1000, data_type=DataType.int8), 2)
    assert found.algbw_gb_s == pytest.approx(4000 / 22 / 1e9)  # as if one more had just ended
    assert tables.bounded(found, "<", "1") == "< 1"
    row = Row("host", 2, case(), {"rocecoll": [Block([1e6], 1.0)] * 2, "gloo": blocks})
    assert tables.ratio_texts(row, "gloo")[0].startswith("> ")
    row = Row("host", 2, case(), {"rocecoll": blocks, "gloo": blocks})
    assert tables.ratio_texts(row, "gloo")[0] == "-"


@pytest.mark.quick
def test_every_peer_is_drawn_in_one_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    times = {"rocecoll": 1e-5, "gloo": 1e-4, "mpi": 2e-5}
    rows = [
        Row(
            "host",
            2,
            case(operation, size),
            {who: [Block([t * 1e6], t)] * 2 for who, t in times.items()},
        )
        for operation in (Operation.all_reduce, Operation.broadcast)
        for size in (8, 1024, 65536)
    ]
    rows[0].blocks.pop("mpi")
    assert [len(some) for _, some in plot.curves(rows)] == [3, 3]
    plot.draw(rows, first := tmp_path / "first.svg")
    plot.draw(rows, second := tmp_path / "second.svg")
    text = first.read_text()
    for word in (*times, "all_reduce", "broadcast", "64 KiB", "busbw, GB/s"):
        assert word in text
    assert text == second.read_text()
    with pytest.raises(plot.PlotError):
        plot.draw([Row("host", 2, case(Operation.barrier), rows[0].blocks)], first)


@pytest.mark.quick
def test_a_page_has_machine_command_pictures_and_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    blocks = {who: [Block([1000], 0.001)] * 2 for who in ("rocecoll", "gloo")}
    wrong = dict.fromkeys(blocks, 0)
    rows = [Row(name, 2, case(size_bytes=8), blocks, wrong) for name in ("host", "veth:mtu=9000")]
    monkeypatch.setattr(sys, "argv", ["bench.py", "--op", "all_reduce"])
    page.write(path := tmp_path / "page.md", machine.facts("reno"), rows)
    text = path.read_text()
    assert f"| cores | {len(os.sched_getaffinity(0))} |" in text
    assert "| tcp_congestion_control | reno |" in text
    assert "```\n./scripts/bench --op all_reduce\n```" in text
    for title, picture in (
        ("2 ranks on one host", "page-2-ranks-on-one-host.svg"),
        ("2 hosts, veth:mtu=9000", "page-2-hosts-veth-mtu-9000.svg"),
    ):
        assert f"## {title}\n" in text and f"]({picture})" in text
        assert "<svg" in (tmp_path / picture).read_text()
    assert text.count("| gloo | 1000 | 1000 |") == 2


@pytest.mark.quick
def test_a_report_is_read_while_it_grows(tmp_path: Path) -> None:
    reader = launcher.Reader(path := tmp_path / "blocks.jsonl")
    assert reader.lines() == []
    path.write_text('{"case": 0}\n{"ca')
    assert reader.lines() == [{"case": 0}]
    with path.open("a") as file:
        file.write('se": 1}\n')
    assert reader.lines() == [{"case": 1}]


# Real runs.


def test_every_operation_runs_and_is_right(tmp_path: Path) -> None:
    report = tmp_path / "rows.json"
    options = ["--all", "-b", "8", "-e", "4K", "-f", "512", "--place", "in", "--place", "out"]
    result = run(*options, "--rounds", "1", "--block-s", "0.01", "--json", str(report))
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


def test_types_and_reductions_and_three_ranks(tmp_path: Path) -> None:
    report = tmp_path / "rows.json"
    options = ["-b", "1000", "-e", "1000", "--rounds", "1", "--block-s", "0.01", "--ranks", "3"]
    for name in ("bfloat16", "int8", "float64"):
        options += ["-d", name]
    for name in ("prod", "avg", "min"):
        options += ["-o", name]
    result = run(*options, "--op", "reduce_scatter", "--json", str(report))
    assert result.returncode == 0, result.stdout
    rows = json.loads(report.read_text())["rows"]
    assert len(rows) == 9
    for row in rows:
        # gloo has neither the mean nor bfloat16.
        alone = row["reduction"] == "avg" or row["data_type"] == "bfloat16"
        assert set(row["peers"]) == ({"rocecoll"} if alone else {"rocecoll", "gloo"})
        assert all(peer["wrong"] == 0 for peer in row["peers"].values())


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
    result = run(*options, "--json", str(report))
    assert result.returncode == 0, result.stdout
    for row in json.loads(report.read_text())["rows"]:
        reduces = Operation(row["operation"]) in operations.REDUCING
        lacking = reduces and row["data_type"] == "float16"
        lacking |= row["operation"] == "reduce_scatter" and row["place"] == "in"
        assert set(row["peers"]) == {"rocecoll", "core"} | (set() if lacking else {"mpi"}), row
        assert all(peer["wrong"] == 0 for peer in row["peers"].values()), row


def test_the_limit_program_sums(tmp_path: Path) -> None:
    report = tmp_path / "rows.json"
    options = ["--op", "all_reduce", "--op", "broadcast", "-b", "4", "-e", "4M", "-f", "32"]
    options += ["--vs", "none", "--limit", "udp", "--rounds", "1", "--block-s", "0.01"]
    result = run(*options, "--json", str(report))
    assert result.returncode == 0, result.stdout
    for row in json.loads(report.read_text())["rows"]:
        reduces = row["operation"] == "all_reduce"
        assert set(row["peers"]) == ({"rocecoll", "raw-udp"} if reduces else {"rocecoll"})
        assert all(peer["wrong"] == 0 and not peer["gave_up"] for peer in row["peers"].values())


def test_a_sweep_measures_every_algorithm(tmp_path: Path) -> None:
    report = tmp_path / "rows.json"
    options = ["--sweep", "--op", "all_reduce", "--op", "send_recv", "-b", "4K", "-e", "4K"]
    options += ["--ranks", "2", "--ranks", "3", "--rounds", "1", "--block-s", "0.01"]
    result = run(*options, "--json", str(report))
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
        return plan.on(launcher.world(name, ranks)).peers

    assert peers("host", 2, "mpi", "raw-udp") == ["gloo", "mpi", "raw-udp"]
    assert peers("host", 4, "mpi", "raw-udp") == ["gloo", "mpi"]
    assert peers("host", 2, "mpi", "mpi-shm") == ["gloo", "mpi-shm"]
    assert peers("host:udp", 2, "mpi", "mpi-shm") == ["gloo", "mpi"]
    assert peers("host:udp", 2, "mpi-shm") == ["gloo", "mpi-shm"]
    assert peers("veth:mtu=9000", 2, "mpi", "mpi-shm", "raw-udp") == ["gloo", "raw-udp"]
    assert peers("veth", 4, "raw-udp") == ["gloo"]
    for name in ("veth:loss=1", "veth:rate=1gbit"):
        assert peers(name, 2, "mpi", "raw-udp") == ["gloo"]
    ring = launcher.Plan([case(Operation.send_recv), case()], [], 1, 0.1)
    assert len(ring.on(launcher.world("host", 2)).cases) == 2
    alone = ring.on(launcher.world("host", 1))
    assert [one.operation for one in alone.cases] == [Operation.all_reduce]


@pytest.mark.quick
def test_each_number_of_ranks_on_each_network() -> None:
    found = bench.worlds(["host", "host:udp", "veth"], [2, 4])
    names = [tables.where(there.name, there.ranks) for there in found]
    assert names == [
        "2 ranks on one host",
        "4 ranks on one host",
        "2 ranks on one host, over UDP",
        "4 ranks on one host, over UDP",
        "2 hosts, veth",
        "2 hosts with 2 ranks each, veth",
    ]
    with pytest.raises(networks.NetworkError, match="3 ranks are not equally many on 2 hosts"):
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
