# SPDX-License-Identifier: Apache-2.0
"""Starts the ranks of scripts/bench on this host or between namespaces, and reads what they report."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import mpi_peer, networks, udp_peer
from benchmarks.operations import TO_OTHERS, Case
from benchmarks.results import OURS, Block, Row

SCRIPTS = Path(__file__).resolve().parents[1]
SILENCE_LIMIT_S = 900.0  # from one line of the report to the next
ENDING_LIMIT_S = 10.0
PORT = 29500  # in a namespace of its own any port is free


@dataclass(frozen=True)
class World:
    """Where ranks run, and how many in all; on networks, half of them on each host."""

    name: str
    ranks: int
    spec: networks.Spec | None = None  # of a network

    def without(self, peers: list[str]) -> list[str]:
        """The ways of OpenMPI that cannot run here, or of both the one that compares less."""
        ways = [name for name in peers if name in mpi_peer.NETWORKS]
        if self.spec is not None:  # mpirun's ranks all are in its own namespace
            return ways
        like_ours = "mpi" if self.name == networks.HOST_UDP else "mpi-shm"
        return [name for name in ways if name != like_ours and like_ours in ways]


def world(name: str, ranks: int) -> World:
    """Raises NetworkError for a name that is none."""
    return World(name, ranks, networks.parse(name) if networks.is_network(name) else None)


class RankError(Exception):
    """A rank has not done its part; it has said why on stderr."""


@dataclass(frozen=True)
class Plan:
    """What to do on each network. `tcp` is the congestion control of gloo's connections there."""

    cases: list[Case]
    peers: list[str]  # besides rocecoll
    rounds: int
    block_s: float
    socket_buffer: int | None = None
    tcp: str | None = None

    def on(self, there: World) -> Plan:
        """Without what cannot run there, or cannot be compared."""
        cases = [case for case in self.cases if there.ranks > 1 or case.operation not in TO_OTHERS]
        lacking = set(there.without(self.peers))
        if there.ranks != 2 or (there.spec is not None and there.spec.loses):
            lacking.add(udp_peer.NAME)
        peers = [name for name in self.peers if name not in lacking]
        return replace(self, cases=cases, peers=peers)

    @property
    def most_blocks(self) -> int:
        return 2 * self.rounds * (1 + len(self.peers)) * len(self.cases)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(plan: Plan, there: World) -> dict[str, str]:
    """Of all ranks."""
    made = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TORCH_CPP_LOG_LEVEL": "ERROR",  # or the store complains that hosts have no names
        "WORLD_SIZE": str(there.ranks),
        "LOCAL_WORLD_SIZE": str(there.ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    if there.name == networks.HOST_UDP:
        made["ROCECOLL_TRANSPORT"] = "udp"
    if plan.socket_buffer is not None:
        made["ROCECOLL_SOCKET_BUFFER_BYTES"] = str(plan.socket_buffer)
    return made


def on_network(rank: int, on_a_host: int) -> dict[str, str]:
    """Of a rank; the first host has the first ones."""
    # These hosts share their processors, which no rank can know.
    crowded = on_a_host * len(networks.DATA_ADDRESSES) > len(os.sched_getaffinity(0))
    return ({"ROCECOLL_SPIN_US": "0"} if crowded else {}) | {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank % on_a_host),
        "LOCAL_WORLD_SIZE": str(on_a_host),
        "MASTER_ADDR": networks.CONTROL_ADDRESSES[0],
        "MASTER_PORT": str(PORT),
        "ROCECOLL_SOCKET_IFNAME": f"={networks.DATA}",
    }


def processes(
    plan: Plan, there: World, network: networks.Network | None, program: list[str]
) -> list[tuple[list[str], dict[str, str]]]:
    """Commands, each with its environment."""
    shared, ranks = environment(plan, there), there.ranks
    if network is not None:
        on_a_host = ranks // len(network.namespaces)
        return [
            (
                networks.in_namespace(network.namespaces[rank // on_a_host], *program),
                shared | on_network(rank, on_a_host),
            )
            for rank in range(ranks)
        ]
    if mpi := mpi_peer.among(plan.peers):
        return [(mpi_peer.command(mpi, ranks, program), shared)]
    return [
        (program, shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(ranks)
    ]


def start(
    plan: Plan, there: World, network: networks.Network | None, report: Path
) -> list[subprocess.Popen[bytes]]:
    droppers: list[tuple[networks.Dropper, ...]] = [()] * there.ranks
    if network is not None:  # a host's first rank counts for all of them
        droppers[:: there.ranks // len(network.droppers)] = network.droppers
    job = {
        "cases": [asdict(case) for case in plan.cases],
        "peers": [OURS, *plan.peers],
        "rounds": plan.rounds,
        "block_s": plan.block_s,
        "droppers": [[asdict(one) for one in of_rank] for of_rank in droppers],
        "control_interface": networks.CONTROL if network else None,
        "data_interface": networks.DATA if network else None,
        "report": str(report),
    }
    program = [sys.executable, "-m", "benchmarks.rank", json.dumps(job)]
    return [
        subprocess.Popen(command, cwd=SCRIPTS, env=env)
        for command, env in processes(plan, there, network, program)
    ]


class Reader:
    """The lines of a report that grows."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self.file, self.rest = path.open(), ""

    def lines(self) -> list[dict[str, Any]]:
        *whole, self.rest = (self.rest + self.file.read()).split("\n")
        return [json.loads(line) for line in whole]


def follow(
    ranks: list[subprocess.Popen[bytes]], reader: Reader, take: Callable[[dict[str, Any]], None]
) -> None:
    """Until all ranks have succeeded or one has failed; none runs on afterwards."""
    heard = time.monotonic()
    try:
        while True:
            ended = [rank.poll() for rank in ranks]
            for line in reader.lines():
                heard = time.monotonic()
                take(line)
            for number, status in enumerate(ended):
                if status:
                    raise RankError(f"rank {number} ended with status {status}")
            if None not in ended:
                return
            if time.monotonic() - heard > SILENCE_LIMIT_S:
                raise RankError(f"the ranks did nothing for {SILENCE_LIMIT_S:g} s")
            time.sleep(0.1)
    finally:
        for rank in ranks:
            rank.terminate()
        for rank in ranks:
            try:
                rank.wait(ENDING_LIMIT_S)
            except subprocess.TimeoutExpired:
                rank.kill()
                rank.wait()


def block_of(line: dict[str, Any]) -> Block:
    """There may be millions of times."""
    block = Block(**line)
    block.times_us = array("d", block.times_us)
    return block


def measure(plan: Plan, there: World, block_done: Callable[[], None]) -> list[Row]:
    rows = [Row(there.name, there.ranks, case) for case in plan.cases]

    def take(line: dict[str, Any]) -> None:
        row = rows[line["case"]]
        if "block" in line:
            row.blocks.setdefault(line["peer"], []).append(block_of(line["block"]))
            block_done()
        else:
            row.wrong = line["wrong"]

    with (
        tempfile.TemporaryDirectory(prefix="rocecoll-bench-") as directory,
        networks.made(there.spec, plan.tcp) if there.spec else nullcontext() as network,
    ):
        report = Path(directory) / "blocks.jsonl"
        reader = Reader(report)
        follow(start(plan, there, network, report), reader, take)
    return rows
