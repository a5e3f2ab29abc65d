# SPDX-License-Identifier: Apache-2.0
"""./scripts/bench --network: its sums, and small runs between real namespaces."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from launch import ROOT, end_tree, environment
from namespaces import inside

sys.path.append(str(ROOT / "scripts"))

from bench_networks import need
from benchmarks import commands, links, networks, tables
from benchmarks.commands import CommandError
from benchmarks.network_spec import parse

from rocecoll.bench.operations import Case, DataType, Operation, Place, Reduction
from rocecoll.bench.results import Block, Row, figures

BENCH = [sys.executable, str(ROOT / "scripts" / "bench.py")]
LIMIT_S = 300
PACKETS_AT_ONCE = 100  # more than a bucket lets pass, whatever passes until they have been sent
MIB = 1 << 20
CASE = Case(Operation.all_reduce, MIB, DataType.float32, Reduction.sum, Place.in_place)


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


@pytest.mark.quick
@pytest.mark.parametrize(
    ("more", "dropped", "told"),
    [
        (",offload=off", 5, "1.00 %"),
        ("", 5, "> 1.00 %"),
        (",burst=64kb", 5, "-"),
        (",burst=64kb", 0, "0.00 %"),
    ],
)
def test_messages_that_count_as_packets_are_told(more: str, dropped: int, told: str) -> None:
    mine = figures([Block([1e5] * 10, 1.0, packets=500, dropped=dropped)], CASE, 2)
    assert tables.dropped_text(mine, parse(f"veth:rate=1gbit{more}")) == told


@pytest.fixture
def can_make_networks() -> None:
    need("veth:loss=1", "veth:rate=1gbit,mark=on", "veth:delay=1ms,beside=tcp:reno")


def bound(network: networks.Network, host: int) -> socket.socket:
    with inside(network.namespaces[host]):
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((networks.DATA_ADDRESSES[host], 0))
    made.settimeout(LIMIT_S)
    return made


@pytest.mark.parametrize("where", ["host", "router"])
def test_packets_take_the_delay_and_full_buckets_drop(where: str) -> None:
    name = f"veth:rate=1mbit,burst=8kb,limit=16kb,where={where},offload=off,delay=20ms"
    need(name)
    with (
        networks.made(parse(name)) as network,
        bound(network, 0) as one,
        bound(network, 1) as other,
    ):
        started = time.monotonic()
        one.sendto(b"there", other.getsockname())
        assert other.recv(100) == b"there"
        other.sendto(b"back", one.getsockname())
        assert one.recv(100) == b"back"
        assert time.monotonic() - started >= 0.04
        [bucket, cable] = network.droppers[1]
        deadline = time.monotonic() + LIMIT_S
        while bucket.packets()[1] == 0:
            assert time.monotonic() < deadline
            for _ in range(PACKETS_AT_ONCE):
                one.sendto(bytes(1400), other.getsockname())
        assert [dropper.packets()[1] for dropper in (cable, *network.droppers[0])] == [0, 0, 0]


def test_other_flows_go_on_as_long_as_the_network() -> None:
    name = "veth:rate=1gbit,beside=2*tcp:reno"
    need(name)
    with networks.made(parse(name)) as network:
        assert network.flows is not None
        before, deadline = network.flows.received(), time.monotonic() + LIMIT_S
        while network.flows.received() < before + MIB:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert [child for child in children() if "bulk_flow.py" in " ".join(words_of(child))] == []


def test_flows_that_end_early_are_told() -> None:
    name = "veth:beside=tcp:reno"
    need(name)
    told = pytest.raises(CommandError, match=r"bulk_flow.py send .* while it was needed")
    with told, networks.made(parse(name)):
        [sender] = [child for child in children() if "send" in words_of(child)]
        sender.kill()
        sender.wait(LIMIT_S)
        raise RuntimeError("what came of it")


def test_a_namespace_of_somebody_else_stays() -> None:
    need("veth")
    names = [f"{networks.PREFIX}-{os.getpid()}-{name}" for name in ("mine", "theirs")]
    with links.namespaces(names[1:]):
        with pytest.raises(CommandError, match="theirs"), links.namespaces(names):
            raise AssertionError("it took what was there")
        assert names[1] in commands.run("ip", "netns").split()
        assert names[0] not in commands.run("ip", "netns").split()


def words_of(process: psutil.Process) -> list[str]:
    """Empty if it has ended meanwhile, as do the many short commands that set up a network."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def start(*arguments: str) -> subprocess.Popen[str]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    env = environment(PYTHONPATH=os.pathsep.join(filter(None, paths)))
    return subprocess.Popen(
        [*BENCH, *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def namespaces_of(process: subprocess.Popen[str]) -> list[str]:
    prefix = f"{networks.PREFIX}-{process.pid}-"
    return [name for name in commands.run("ip", "netns").split() if name.startswith(prefix)]


def ranks_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    everyone = psutil.Process(process.pid).children(recursive=True)
    return [child for child in everyone if "benchmarks.rank" in words_of(child)]


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
    names = ("veth:loss=5", "veth:rate=20mbit,limit=16kb", "veth:rate=20mbit,limit=32kb,mark=on")
    names += ("veth:rate=100mbit,where=host,delay=5ms,beside=2*tcp:reno",)
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
    lossy, shaped, marked, long = (row["peers"]["rocecoll"] for row in written["rows"])
    assert 0.01 < lossy["dropped_share"] < 0.15  # at least 700 packets, of which 5 % are dropped
    assert lossy["retransmitted_share"] > 0
    assert shaped["marked_share"] == 0
    assert marked["marked_share"] > 0
    assert shaped["others_gb_s"] == 0 and long["others_gb_s"] > 0
    assert long["rtt_us"] >= 10_000 and long["window_bytes"] > 0
    assert "TCP GB/s" in output


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
