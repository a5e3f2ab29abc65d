# SPDX-License-Identifier: Apache-2.0
"""A rank that trains the handwritten digits over several networks, one after the other."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))

import torch
import torch._dynamo
import torch.distributed as dist
import train_digits

import rocecoll

NETWORKS = ("gloo", "default", "rc", "ud")


def packets_sent() -> int:
    """From Soft-RoCE's own counters."""
    counters = Path("/sys/class/infiniband").glob("*/ports/1/hw_counters/sent_pkts")
    return sum(int(counter.read_text()) for counter in counters)


def train(network: str, epochs: int, report: Path) -> dict[str, object]:
    os.environ.pop("ROCECOLL_TRANSPORT", None)
    if network in ("rc", "ud"):
        os.environ["ROCECOLL_TRANSPORT"] = network
    packets = packets_sent()
    backend = "gloo" if network == "gloo" else "rocecoll"
    train_digits.main(backend=backend, epochs=epochs, report=report)
    lines = report.read_text().splitlines() if report.exists() else []  # rank 0 alone reports
    rows = [json.loads(line) for line in lines]
    return {
        "losses": [row["loss"] for row in rows],
        "bytes": sum(sum(row["bytes"].values()) for row in rows),
        "packets": packets_sent() - packets,
    }


def exchange_in_other_order() -> dict[str, object]:
    """The ranks reconfigure their group, which turns them round, and send its first rank's tensor."""
    os.environ["ROCECOLL_TRANSPORT"] = "rc"
    dist.init_process_group("rocecoll")
    handles: list[str] = [""] * dist.get_world_size()
    dist.all_gather_object(handles, rocecoll.reconfigure_handle())
    rank = dist.get_rank()
    rocecoll.reconfigure(None, 1, handles[::-1])
    packets = packets_sent()
    tensor = torch.full((1 << 18,), float(rank))
    dist.broadcast(tensor, 0)
    dist.barrier()  # until the other rank has all of it
    result = {"ranks": [rank, dist.get_rank()], "value": tensor.unique().tolist()}
    dist.destroy_process_group()
    return {**result, "packets": packets_sent() - packets}


def train_over_each(report: Path, epochs: int, ports: list[int], own: dict[str, str]) -> None:
    """Of a process that is a rank: `ports` are one for each of NETWORKS and one more, `own` its variables.

    Rank 0 leaves a JSON object at `report`: by network the loss after each epoch, the bytes that it
    sent and received, and the packets that the RoCE devices of this guest sent meanwhile. Under
    "reconfigured": the same of a group whose ranks are turned round.
    """
    os.environ.update(own)
    results = {}
    *for_training, for_reconfiguring = ports
    for network, port in zip(NETWORKS, for_training, strict=True):
        os.environ["MASTER_PORT"] = str(port)
        results[network] = train(
            network, epochs, report.with_suffix(f".{network}.{os.environ['RANK']}")
        )
    os.environ["MASTER_PORT"] = str(for_reconfiguring)
    results["reconfigured"] = exchange_in_other_order()
    if os.environ["RANK"] == "0":
        report.write_text(json.dumps(results))
