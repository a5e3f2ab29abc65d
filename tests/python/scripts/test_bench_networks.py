# SPDX-License-Identifier: Apache-2.0
"""./scripts/bench --network: its names, its sums, and one small run between real namespaces."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from launch import ROOT, end_tree, environment

sys.path.append(str(ROOT / "scripts"))

from benchmarks import network_results, networks
from benchmarks.network_results import Block, Row, figure

BENCH = [sys.executable, str(ROOT / "scripts" / "bench.py")]
LIMIT_S = 300
MIB = 1 << 20


@pytest.mark.quick
def test_names_of_networks() -> None:
    assert networks.parse("loss-0.1") == networks.Spec("loss-0.1", loss_percent=0.1)
    shaped = networks.parse("shaped-1gbit-64kb")
    assert (shaped.rate, shaped.buffer, shaped.burst_bytes) == ("1gbit", "64kb", 15625)
    marked = networks.parse("marked-1gbit-64kb")
    assert marked == networks.Spec("marked-1gbit-64kb", None, "1gbit", "64kb", marks=True)
    assert (marked.bytes_per_s, marked.buffer_bytes) == (125_000_000, 65536)
    assert networks.parse("shaped-10mbit-9000b").burst_bytes >= 1514  # else nothing would fit


@pytest.mark.quick
@pytest.mark.parametrize("name", ["", "loss-", "loss-100", "loss-1e1", "shaped-0gbit-1kb", "lan"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=repr(name)):
        networks.parse(name)


def runs(program: str, random: int) -> int:
    """What classic BPF returns, of the three instructions that are used."""
    code = [tuple(map(int, line.split())) for line in program.split(",")[1:]]
    assert len(code) == int(program.split(",")[0])
    at = 0
    while True:
        operation, if_true, if_false, k = code[at]
        if operation == 6:
            return k
        if operation == 53:
            at += if_true if random >= k else if_false
        else:
            assert (operation, k) == (32, 2**32 - 0x1000 + 56)  # SKF_AD_OFF + SKF_AD_RANDOM
        at += 1


@pytest.mark.quick
@pytest.mark.parametrize("percent", [0, 0.1, 20])
def test_packets_below_the_threshold_are_dropped(percent: float) -> None:
    program, threshold = networks.drop_program(percent), round(percent / 100 * 2**32)
    drop, go_on = 2, 2**32 - 1
    assert runs(program, threshold) == runs(program, 2**32 - 1) == go_on
    if percent:
        assert runs(program, 0) == runs(program, threshold - 1) == drop


@pytest.mark.quick
def test_a_rate_is_that_of_all_blocks() -> None:
    blocks = [Block(10, 1.0, sent=300, retransmitted=3, packets=500, dropped=5), Block(2, 2.0)]
    mine = figure(blocks, MIB)
    assert mine.bytes_per_s == 4 * MIB
    assert (mine.dropped_share, mine.retransmitted_share) == (0.01, 0.01)


@pytest.mark.quick
def test_who_gives_up_gets_an_upper_bound() -> None:
    blocks = [Block(3, 2.0), Block(0, 20.0, gave_up=True)]
    assert (
        figure(blocks, 1000 * 1000).text == "< 0.1818"
    )  # as if it had just then finished one more
    ours = figure([Block(1, 1.0)], 1000 * 1000)
    assert network_results.ratio_text(ours, figure(blocks, 1000 * 1000)) == "> 5.50"
    assert network_results.ratio_text(figure(blocks, 1), ours) == "-"


@pytest.mark.quick
def test_loss_is_compared_with_no_loss() -> None:
    def row(network: str, iterations: int) -> Row:
        return Row(network, "all_reduce", 8, {"rocecoll": [Block(iterations, 1.0)]})

    reference = row("loss-0", 8)
    assert network_results.kept_text(row("loss-1", 6), reference, "rocecoll") == "0.75"
    assert network_results.kept_text(row("shaped-1gbit-1mb", 6), reference, "rocecoll") == ""


@pytest.fixture
def can_make_networks() -> None:
    for name in ("loss-1", "marked-1gbit-64kb"):
        try:
            with networks.made(networks.parse(name)):
                pass
        except networks.NetworkError as error:
            pytest.skip(f"no such networks here: {error}")


def start(*arguments: str) -> subprocess.Popen[str]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    env = environment(PYTHONPATH=os.pathsep.join(filter(None, paths)))
    return subprocess.Popen(
        [*BENCH, *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def namespaces_of(process: subprocess.Popen[str]) -> list[str]:
    return [
        name for name in networks.run("ip", "netns").split() if f"rocecoll{process.pid}" in name
    ]


def is_rank(process: psutil.Process) -> bool:
    try:
        return "benchmarks.network_rank" in process.cmdline()
    except psutil.NoSuchProcess:
        return False  # one of the many short commands that make a network


def ranks_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return [
        child for child in psutil.Process(process.pid).children(recursive=True) if is_rank(child)
    ]


def end(process: subprocess.Popen[str]) -> str:
    try:
        return process.communicate(timeout=LIMIT_S)[0]
    finally:
        if process.poll() is None:
            print(end_tree(process))


@pytest.mark.usefixtures("can_make_networks")
def test_blocks_run_on_every_network_and_drops_are_counted(tmp_path: Path) -> None:
    report = tmp_path / "rows.json"
    names = ("loss-5", "shaped-20mbit-16kb", "marked-20mbit-32kb")
    options = [word for name in names for word in ("--network", name)]
    options += ["--size", "262144", "--rounds", "1", "--socket-buffer", "212992", "--tcp", "reno"]
    process = start(*options, "--json", str(report))
    output = end(process)
    assert process.returncode == 0, output
    assert "TCP with reno" in output
    assert namespaces_of(process) == []
    lossy, shaped, marked = (Row.read(line) for line in json.loads(report.read_text()))
    assert [lossy.network, shaped.network, marked.network] == list(names)
    for row in (lossy, shaped, marked):
        assert (row.operation, row.size_bytes) == ("all_reduce", 262144)
        for blocks in row.blocks.values():
            assert len(blocks) == 2
            assert all(block.packets > 0 or block.gave_up for block in blocks)
        assert all(block.iterations > 0 and block.sent > 0 for block in row.blocks["rocecoll"])
    ours = lossy.figure("rocecoll")
    assert 0.01 < ours.dropped_share < 0.15  # at least 700 packets, of which 5 % are dropped
    assert ours.retransmitted_share > 0
    assert shaped.figure("rocecoll").marked_share == 0
    assert marked.figure("rocecoll").marked_share > 0


@pytest.mark.usefixtures("can_make_networks")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_behind(number: signal.Signals) -> None:
    process = start("--network", "shaped-1gbit-64kb", "--rounds", "1000")
    try:
        deadline = time.monotonic() + LIMIT_S
        while len(ranks := ranks_of(process)) < 2:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(number)
    except BaseException:
        print(end_tree(process))
        raise
    output = end(process)
    assert process.returncode != 0, output
    assert namespaces_of(process) == []
    assert [rank for rank in ranks if rank.is_running()] == []


def test_an_unknown_network_is_refused() -> None:
    process = start("--network", "lan")
    output = end(process)
    assert process.returncode == 2, output
    assert "'lan' is no network" in output
