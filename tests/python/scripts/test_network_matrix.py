# SPDX-License-Identifier: Apache-2.0
"""scripts/network_matrix: its networks, its page, and one small run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import network_matrix
import pytest
import typer
from bench_networks import need
from benchmarks import network_page, network_spec
from benchmarks.commands import CommandError
from benchmarks.network_page import Line
from benchmarks.network_spec import parse
from launch import ROOT, environment, run_programs
from rich.console import Console

from rocecoll.bench.local_ranks import RankError
from rocecoll.bench.results import Block, Row

SCRIPT = str(ROOT / "scripts" / "network_matrix.py")
LIMIT_S = 300
CONTROLS = ("cubic", "bbr")
MATRIX = tuple(network_matrix.Measurement(f"veth:rate={number}mbit") for number in range(1, 6))
FAILURES = {
    "veth:rate=2mbit": CommandError("no such qdisc"),
    "veth:rate=4mbit": RankError("rank 1 was killed"),
}


@pytest.fixture
def every_control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    controls = tmp_path / "controls"
    controls.write_text("reno cubic bbr\n")
    monkeypatch.setattr(network_spec, "CONTROLS", controls)
    monkeypatch.setattr(network_matrix, "CONTROLS", controls)
    return controls


def row(one: network_matrix.Measurement) -> Row:
    """Ours at 4 MiB a second, gloo at a half and a quarter of it."""
    mib = one.size_bytes / (1 << 20)
    blocks = {
        name: [Block([mib * time * 1e6], mib * time, others=50_000_000, lasted_s=1.0)] * 4
        for name, time in (("rocecoll", 0.25), ("gloo/cubic", 0.5), ("gloo/bbr", 1.0))
    }
    for ours in blocks["rocecoll"]:
        ours.sent, ours.retransmitted, ours.others = 1000, 25, 100_000_000
        ours.rtt_us, ours.window_bytes = 1500.0, 65536
    return Row(one.network, 2, one.case, blocks, dict.fromkeys(blocks, 0), hosts=2)


@pytest.mark.quick
@pytest.mark.usefixtures("every_control")
def test_every_network_of_the_list_is_one_and_told_apart() -> None:
    told = set()
    for one in network_matrix.MATRIX:
        parse(one.network)
        told.add((network_page.words(one.network), one.operation, one.size_bytes))
    assert len(told) == len(network_matrix.MATRIX)
    assert network_page.words("veth") == "no shaper"
    assert (
        network_page.words(
            "veth:rate=100mbit,burst=32kb,where=host,delay=500us,beside=2*tcp:cubic,offload=off"
        )
        == "100 Mbit/s, at the host, burst 32 KiB, 500 us each way, singly, beside 2 TCP cubic"
    )


@pytest.mark.quick
def test_cells_of_a_line() -> None:
    shaped = network_matrix.Measurement("veth:rate=1gbit")
    cells = network_page.cells(Line(row(shaped), "model"), CONTROLS)
    assert cells[:3] == ["1 Gbit/s, at the router", "all_reduce, 4 MiB", "model"]
    assert cells[3:7] == ["4.19", "2.5 %", "1.5 ms", "64 KiB"]
    assert cells[7:] == ["2.1", "1.05", "2.00", "100, 50, 50"]
    assert len(cells) == len(network_page.columns(CONTROLS))
    alone = row(shaped)
    del alone.blocks["gloo/bbr"]
    assert network_page.cells(Line(alone, "model"), CONTROLS)[7:] == [
        "2.1",
        "",
        "2.00",
        "100, 50, -",
    ]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("who", "ratio"),
    [
        (["rocecoll"], "< 4.00"),
        (["gloo/cubic"], "> 1.00"),
        (["gloo/bbr"], "2.00"),
        (["rocecoll", "gloo/cubic"], "-"),
    ],
)
def test_a_ratio_of_bounds_is_one_or_nothing(who: list[str], ratio: str) -> None:
    """What was given up counts as done; here it is as much as was really done."""
    bounds = row(network_matrix.Measurement("veth:rate=1gbit"))
    for name in who:
        bounds.blocks[name][-1].gave_up = True
    assert network_page.cells(Line(bounds, "model"), CONTROLS)[9] == ratio


@pytest.mark.quick
def test_a_kernel_without_bbr_leaves_out_what_needs_it(
    every_control: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(one: network_matrix.Measurement, names: list[str], _: float) -> Iterator[Line]:
        parse(one.network)
        yield from (Line(row(one), name) for name in names)

    every_control.write_text("cubic\n")
    monkeypatch.setattr(network_matrix, "measured", measured)
    matrix = network_matrix.chosen(["beside"])
    found = list(network_matrix.lines(matrix, ["model", "cubic"], 1.0, Console(width=1000)))
    assert [line.controller for line in found] == ["model", "cubic"]
    assert "no congestion control 'bbr'" in capsys.readouterr().out
    assert network_matrix.tcp_controls() == ["cubic"]


@pytest.mark.quick
def test_controllers_are_those_of_the_option() -> None:
    assert network_matrix.chosen_controllers(None) == ["model"]
    assert network_matrix.chosen_controllers("cubic,model,cubic") == ["cubic", "model"]
    with pytest.raises(typer.BadParameter, match="'reno': accepted is model or cubic"):
        network_matrix.chosen_controllers("cubic,reno")


@pytest.mark.quick
def test_ranks_have_the_controller_that_the_line_names(monkeypatch: pytest.MonkeyPatch) -> None:
    one = network_matrix.Measurement("veth:rate=1gbit")
    seen: list[str] = []

    def measure(*_: object) -> list[Row]:
        seen.append(os.environ["ROCECOLL_CONGESTION"])
        return [row(one)]

    monkeypatch.setenv("ROCECOLL_CONGESTION", "cubic")
    monkeypatch.setattr(network_matrix.launcher, "measure", measure)
    assert [line.controller for line in network_matrix.measured(one, ["model"], 1.0)] == ["model"]
    assert seen == ["model"]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What stands for docs/networks.md. Each network that is measured fails as FAILURES says."""

    def measured(one: network_matrix.Measurement, names: list[str], _: float) -> Iterator[Line]:
        if one.network in FAILURES:
            raise FAILURES[one.network]
        yield Line(row(one), names[0])

    monkeypatch.setattr(network_matrix, "measured", measured)
    monkeypatch.setattr(network_matrix, "MATRIX", MATRIX)
    monkeypatch.setattr(network_matrix, "PAGE", tmp_path / "networks.md")
    monkeypatch.setattr(network_matrix.packages, "install", lambda _: None)
    monkeypatch.setattr(network_matrix.local_ranks, "end_in_order", lambda: None)
    return tmp_path / "networks.md"


@pytest.mark.quick
def test_what_was_measured_before_an_error_is_kept(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended:
        network_matrix.main()
    assert ended.value.exit_code != 0
    said = capsys.readouterr()
    assert "left out: veth:rate=2mbit: no such qdisc" in said.out
    assert "rank 1 was killed" in said.err
    text = page.read_text()
    assert "1 Mbit/s" in text and "3 Mbit/s" in text
    assert "2 Mbit/s" not in text and "5 Mbit/s" not in text


@pytest.mark.quick
def test_a_part_is_printed_and_leaves_the_page_alone(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network_matrix.main(only=["rate=1mbit"])
    network_matrix.main(only=["rate=3mbit"], controllers="cubic")
    said = capsys.readouterr().out
    assert "| 1 Mbit/s" in said and "| 3 Mbit/s" in said
    assert not page.exists()


@pytest.mark.quick
@pytest.mark.usefixtures("page")
def test_a_run_that_measures_nothing_has_failed() -> None:
    with pytest.raises(typer.Exit) as ended:
        network_matrix.main(only=["rate=2mbit"])
    assert ended.value.exit_code != 0


@pytest.mark.nightly
def test_a_page_is_made_of_one_run(tmp_path: Path) -> None:
    wanted = "veth:rate=1gbit,burst=512kb"
    need(wanted)
    page = tmp_path / "networks.md"
    command = [sys.executable, SCRIPT, "--seconds", "0.4", "--only", wanted, "--output", str(page)]
    env = environment(PYTHONPATH=os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", ""))))
    [done] = run_programs([command], [env], LIMIT_S)
    assert done.returncode == 0, done.stdout
    line = "| 1 Gbit/s, at the router, burst 512 KiB, limit 500 KiB | all_reduce, 4 MiB | model |"
    assert line in done.stdout
    text = page.read_text()
    assert text.count("Gbit/s, at the router") == 1 and line in text
    assert f"```\n./scripts/network_matrix --seconds 0.4 --only {wanted}" in text
