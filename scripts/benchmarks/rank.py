# SPDX-License-Identifier: Apache-2.0
"""One rank of scripts/bench, with the peers that it has besides backends of torch. rank.py JOB, in JSON.

The ranks agree over a network without loss, so the network under test delays only what is timed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch.distributed as dist

from benchmarks import call_peer, core_peer, mpi_peer, sweep, tcp_peer, udp_peer
from benchmarks.networks import DATA_ADDRESSES, Flows, read_dropper
from rocecoll.bench import rank
from rocecoll.bench.peers import Peer, TorchPeer
from rocecoll.bench.plan import Plan
from rocecoll.bench.turns import Way


def made(name: str, interface: str | None) -> Peer:
    """`interface` is that of the network, if there is one."""
    if name in mpi_peer.WAYS:
        return mpi_peer.MpiPeer(name)
    if name == call_peer.NAME:
        return call_peer.CallPeer()
    if name == core_peer.NAME:
        return core_peer.CorePeer()
    if name == udp_peer.NAME:
        address = DATA_ADDRESSES[dist.get_rank()] if interface else "127.0.0.1"
        return udp_peer.UdpPeer(address, interface or "lo")
    if tcp_peer.SEPARATOR in name:
        return tcp_peer.TcpPeer(name, interface)
    if sweep.SEPARATOR in name:
        return sweep.AlgorithmPeer(name, interface)
    return TorchPeer(name, interface)


def main(job: dict[str, Any]) -> int:
    plan = Plan.read(job["plan"])
    if mpi_peer.among(plan.peers):
        mpi_peer.take_rank()
    rank.join(job["control_interface"])
    droppers = [read_dropper(one) for one in job["droppers"][dist.get_rank()]]
    others = [Flows(**job["flows"])] if job["flows"] and dist.get_rank() == 0 else []
    way = Way(droppers, others)
    peers = [made(name, job["data_interface"]) for name in plan.contenders]
    rank.measure(plan, peers, rank.teller(Path(job["report"])), way, pin=True)
    return 0


if __name__ == "__main__":
    rank.run(lambda: main(json.loads(sys.argv[1])))
