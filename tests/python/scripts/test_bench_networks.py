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

from benchmarks import commands, networks, tables
from benchmarks.commands import CommandError

from rocecoll.bench.operations import Case, DataType, Operation, Place, Reduction
from rocecoll.bench.results import Block, Row, figures

BENCH = [sys.executable, str(ROOT / "scripts" / "bench.py")]
LIMIT_S = 300
MIB = 1 << 20
CASE = Case(Operation.all_reduce, MIB, DataType.float32, Reduction.sum, Place.in_place)


@pytest.mark.quick
def test_names_of_networks() -> None:
    assert networks.parse("veth") == networks.Spec("veth")
    plain = networks.parse("veth:mtu=9000,offload=off")
    assert (plain.mtu, plain.offload, plain.rate) == (9000, False, "")
    lossy = networks.parse("veth:loss=0.1")
    assert (lossy.loss_percent, lossy.offload) == (0.1, False)  # packets are lost one by one
    shaped = networks.parse("veth:rate=1gbit,buffer=128kb")
    assert (shaped.bytes_per_s, shaped.buffer_bytes, shaped.burst_bytes) == (
        125_000_000,
        131072,
        15625,
    )
    marked = networks.parse("veth:rate=1gbit,mark=on")
    assert (marked.marks, marked.buffer_bytes) == (True, 65536)
    assert networks.parse("veth:rate=10mbit").burst_bytes >= 1514  # else nothing would fit
    assert networks.parse("veth:rate=10mbit,mtu=9000").burst_bytes >= 9014


@pytest.mark.quick
@pytest.mark.parametrize(
    "name",
    [
        "",
        "lan",
        "veth:",
        "veth:loss",
        "veth:loss=",
        "veth:loss=100",
        "veth:loss=1e1",
        "veth:loss=1,loss=2",
        "veth:rate=0gbit",
        "veth:offload=on",
        "veth:mark=on",
        "veth:buffer=64kb",
    ],
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(networks.NetworkError, match=repr(name)):
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
def test_shares_are_of_all_blocks() -> None:
    blocks = [Block([1e5] * 10, 1.0, sent=300, retransmitted=3, packets=500, dropped=5)]
    mine = figures([*blocks, Block([1e6] * 2, 2.0)], CASE, 2)
    assert mine.algbw_gb_s == pytest.approx(4 * MIB / 1e9)
    assert (mine.dropped_share, mine.retransmitted_share) == (0.01, 0.01)


@pytest.mark.quick
def test_loss_is_compared_with_no_loss() -> None:
    def row(network: str, operations: int) -> Row:
        return Row(network, 2, CASE, {"rocecoll": [Block([1e6 / operations] * operations, 1.0)]})

    names = ("host", "veth:loss=1", "veth:loss=0,mtu=9000", "veth:loss=0,mtu=1500")
    rows = [row(name, number) for number, name in enumerate(names, start=5)]
    assert [tables.reference_of(one, rows) for one in rows] == [None, rows[3], None, None]
    assert tables.kept_text(rows[1], rows[3], "rocecoll") == "0.75"
    assert tables.kept_text(rows[1], None, "rocecoll") == ""


@pytest.fixture
def can_make_networks() -> None:
    for name in ("veth:loss=1", "veth:rate=1gbit,mark=on"):
        try:
            with networks.made(networks.parse(name)):
                pass
        except (CommandError, networks.NetworkError) as error:
            pytest.skip(f"no such networks here: {error}")


def start(*arguments: str) -> subprocess.Popen[str]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    env = environment(PYTHONPATH=os.pathsep.join(filter(None, paths)))
    return subprocess.Popen(
        [*BENCH, *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def namespaces_of(process: subprocess.Popen[str]) -> list[str]:
    return [
        name for name in commands.run("ip", "netns").split() if f"rocecoll{process.pid}" in name
    ]


def is_rank(process: psutil.Process) -> bool:
    try:
        return "benchmarks.rank" in process.cmdline()
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
@pytest.mark.nightly
def test_blocks_run_on_every_network_and_drops_are_counted(tmp_path: Path) -> None:
    report = tmp_path / "rows.json"
    names = ("veth:loss=5", "veth:rate=20mbit,buffer=16kb", "veth:rate=20mbit,buffer=32kb,mark=on")
    options = [word for name in names for word in ("--network", name)]
    options += ["-b", "256K", "-e", "256K", "--rounds", "1", "--block-s", "1", "--tcp", "reno"]
    process = start(*options, "--socket-buffer", "212992", "--output", str(report))
    output = end(process)
    assert process.returncode == 0, output
    assert namespaces_of(process) == []
    written = json.loads(report.read_text())
    assert written["machine"]["tcp_congestion_control"] == "reno"
    assert [row["network"] for row in written["rows"]] == list(names)
    for row in written["rows"]:
        assert (row["operation"], row["bytes"]) == ("all_reduce", 262144)
        for peer in row["peers"].values():
            assert peer["wrong"] == 0
            assert len(peer["block_medians_us"]) == 2
        assert row["peers"]["rocecoll"]["operations"] > 0
    lossy, shaped, marked = (row["peers"]["rocecoll"] for row in written["rows"])
    assert 0.01 < lossy["dropped_share"] < 0.15  # at least 700 packets, of which 5 % are dropped
    assert lossy["retransmitted_share"] > 0
    assert shaped["marked_share"] == 0
    assert marked["marked_share"] > 0


@pytest.mark.usefixtures("can_make_networks")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.nightly
def test_an_interrupted_run_leaves_nothing_behind(number: signal.Signals) -> None:
    process = start("--network", "veth:rate=1gbit", "--rounds", "1000")
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
