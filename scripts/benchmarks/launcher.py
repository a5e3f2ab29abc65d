# SPDX-License-Identifier: Apache-2.0
"""Starts the ranks of scripts/bench: on this host, also under mpirun, or between namespaces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks import mpi_peer, network_spec, networks, udp_peer
from benchmarks.links import in_namespace
from rocecoll.bench import local_ranks, plan, results
from rocecoll.bench.report import Collector
from rocecoll.bench.results import HOST_UDP, Row

SCRIPTS = Path(__file__).resolve().parents[1]
PORT = 29500  # in a namespace of its own any port is free


@dataclass(frozen=True)
class World:
    """Where ranks run, and how many in all; on networks, each host has half of them."""

    name: str
    ranks: int
    spec: network_spec.Spec | None = None  # of a network

    @property
    def hosts(self) -> int:
        return 1 if self.spec is None else len(networks.DATA_ADDRESSES)

    def where(self, beside: str = "") -> str:
        return results.where(self.name, self.ranks, self.hosts, beside)

    @property
    def over_udp(self) -> bool:
        """Whether the ranks of this host exchange over UDP."""
        return self.name == HOST_UDP

    def openmpi(self, peers: list[str]) -> list[str]:
        """The peers of OpenMPI that run here; of TCP and shared memory, if both are named, the one that
        corresponds to rocecoll's path.
        """
        if self.spec is not None:  # mpirun's ranks are all in its own namespace
            return []
        own = (mpi_peer.TCP, mpi_peer.SHM)
        like, unlike = own if self.over_udp else reversed(own)
        ways = mpi_peer.among(peers)
        return [name for name in ways if name != unlike or like not in ways]


def world(name: str, ranks: int) -> World:
    """Raises NetworkError for a name that is not valid."""
    return World(name, ranks, network_spec.parse(name) if network_spec.is_network(name) else None)


@dataclass(frozen=True)
class Plan(plan.Plan):
    """The plan for each network. `tcp` is the congestion control of gloo's connections there."""

    socket_buffer: int | None = None
    tcp: str | None = None
    beside: str = ""  # the only peer, if these are not the first processes there

    def on(self, there: World) -> list[Plan]:
        """The plans without what cannot run there, or cannot be compared.

        A process has one OpenMPI: each further one takes turns with rocecoll in processes of its own.
        """
        ways = there.openmpi(self.peers)
        lacking = set(mpi_peer.WAYS) - set(ways[:1])
        if there.ranks != 2 or (there.spec is not None and not there.spec.is_plain):
            lacking.add(udp_peer.NAME)
        peers = [name for name in self.peers if name not in lacking]
        first = replace(self.on_ranks(there.ranks), peers=peers)
        return [first, *(replace(first, peers=[way], beside=way) for way in ways[1:])]


def environment(plan: Plan, there: World) -> dict[str, str]:
    """Of all ranks."""
    made = local_ranks.variables(there.ranks)
    if there.over_udp:
        made["ROCECOLL_TRANSPORT"] = "udp"
    if there.spec is not None:
        made.pop("GLOO_SOCKET_IFNAME", None)  # there is no such interface
    if plan.socket_buffer is not None:
        made["ROCECOLL_SOCKET_BUFFER_BYTES"] = str(plan.socket_buffer)
    return made


def waiting(ranks: int, helpers: int) -> dict[str, str]:
    """How all ranks of a network wait: the hosts share their processors, but no rank can know that."""
    crowded = ranks + helpers > len(os.sched_getaffinity(0))
    return {"ROCECOLL_SPIN_US": "0"} if crowded else {}


def on_network(rank: int, on_a_host: int) -> dict[str, str]:
    """The host of a rank; the first host has the first ranks."""
    return {
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
        shared |= waiting(ranks, there.spec.helpers if there.spec else 0)
        return [
            (
                in_namespace(network.namespaces[rank // on_a_host], *program),
                shared | on_network(rank, on_a_host),
            )
            for rank in range(ranks)
        ]
    for mpi in mpi_peer.among(plan.peers):  # at most one
        of_mpi = mpi_peer.environment(mpi, there.over_udp)
        return [(mpi_peer.command(mpi, ranks, program), shared | of_mpi)]
    return [(program, shared | local_ranks.place(rank)) for rank in range(ranks)]


def start(
    plan: Plan, there: World, network: networks.Network | None, report: Path
) -> list[subprocess.Popen[bytes]]:
    droppers: list[tuple[networks.OnTheWay, ...]] = [()] * there.ranks
    if network is not None:  # a host's first rank counts for all of them
        droppers[:: there.ranks // len(network.droppers)] = network.droppers
    flows = network.flows if network else None
    job = {
        "plan": plan.json(),
        "droppers": [[asdict(one) for one in of_rank] for of_rank in droppers],
        "flows": asdict(flows) if flows else None,
        "control_interface": networks.CONTROL if network else None,
        "data_interface": networks.DATA if network else None,
        "report": str(report),
    }
    program = [sys.executable, "-m", "benchmarks.rank", json.dumps(job)]
    return [
        subprocess.Popen(command, cwd=SCRIPTS, env=env)
        for command, env in processes(plan, there, network, program)
    ]


def measure(plan: Plan, there: World, block_done: Callable[[], None]) -> list[Row]:
    rows = [
        Row(there.name, there.ranks, case, hosts=there.hosts, beside=plan.beside)
        for case in plan.cases
    ]
    with networks.made(there.spec, plan.tcp) if there.spec else nullcontext() as network:
        local_ranks.measure(
            lambda report: start(plan, there, network, report), Collector(rows, block_done)
        )
    return rows
