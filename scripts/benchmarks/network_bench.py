# SPDX-License-Identifier: Apache-2.0
"""scripts/bench --network: makes the networks one after the other and runs two ranks on each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import networks
from benchmarks.network_results import Row

SCRIPTS = Path(__file__).resolve().parents[1]
LIMIT_S = 1800
PORT = 29500  # in a namespace of its own any port is free


class RankError(Exception):
    """A rank has not done its part; it has said why on stderr."""


@dataclass(frozen=True)
class Plan:
    """What to do on each network. `tcp` is the congestion control of gloo's connections."""

    operations: list[str]
    sizes: list[int]
    rounds: int
    socket_buffer: int | None
    tcp: str | None


def rank_environment(rank: int, socket_buffer: int | None) -> dict[str, str]:
    made = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TORCH_CPP_LOG_LEVEL": "ERROR",  # or the store complains that the hosts have no names
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": networks.CONTROL_ADDRESSES[0],
        "MASTER_PORT": str(PORT),
        "ROCECOLL_SOCKET_IFNAME": f"={networks.DATA}",
    }
    if socket_buffer is not None:
        made["ROCECOLL_SOCKET_BUFFER_BYTES"] = str(socket_buffer)
    return made


def wait_for(ranks: list[subprocess.Popen[bytes]]) -> None:
    """Until all have succeeded or one has failed; none runs on afterwards."""
    deadline = time.monotonic() + LIMIT_S
    try:
        while any(rank.poll() is None for rank in ranks):
            if any(rank.poll() for rank in ranks) or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        for number, rank in enumerate(ranks):
            if rank.poll():
                raise RankError(f"rank {number} ended with status {rank.returncode}")
            if rank.returncode is None:
                raise RankError(f"rank {number} did not end within {LIMIT_S} s")
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def measure(spec: networks.Spec, plan: Plan) -> list[Row]:
    with (
        tempfile.TemporaryDirectory(prefix="rocecoll-bench-") as directory,
        networks.made(spec, plan.tcp) as network,
    ):
        report = Path(directory) / "rows.jsonl"
        job = {
            "network": spec.name,
            "operations": plan.operations,
            "sizes": plan.sizes,
            "rounds": plan.rounds,
            "droppers": [asdict(dropper) for dropper in network.droppers],
            "report": str(report),
        }
        program = [sys.executable, "-m", "benchmarks.network_rank", json.dumps(job)]
        wait_for(
            [
                subprocess.Popen(
                    networks.in_namespace(namespace, *program),
                    cwd=SCRIPTS,
                    env=rank_environment(rank, plan.socket_buffer),
                )
                for rank, namespace in enumerate(network.namespaces)
            ]
        )
        return [Row.read(json.loads(line)) for line in report.read_text().splitlines()]
