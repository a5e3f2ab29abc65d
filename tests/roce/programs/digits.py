# SPDX-License-Identifier: Apache-2.0
"""One rank that trains the handwritten digits over several networks, one after the other.

    python digits.py REPORT PORT...    one port for each of NETWORKS; rank and size from the environment

Rank 0 leaves a JSON object at REPORT: by network the loss after each epoch, the bytes that it sent and
received, and the packets that the RoCE devices of this guest sent meanwhile.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))

import train_digits

EPOCHS = 2
NETWORKS = ("gloo", "default", "rc", "ud")


def packets_sent() -> int:
    """From Soft-RoCE's own counters."""
    counters = Path("/sys/class/infiniband").glob("*/ports/1/hw_counters/sent_pkts")
    return sum(int(counter.read_text()) for counter in counters)


def train(network: str, report: Path) -> dict[str, object]:
    os.environ.pop("ROCECOLL_TRANSPORT", None)
    if network in ("rc", "ud"):
        os.environ["ROCECOLL_TRANSPORT"] = network
    packets = packets_sent()
    backend = "gloo" if network == "gloo" else "rocecoll"
    train_digits.main(backend=backend, epochs=EPOCHS, report=report)
    lines = report.read_text().splitlines() if report.exists() else []  # rank 0 alone reports
    rows = [json.loads(line) for line in lines]
    return {
        "losses": [row["loss"] for row in rows],
        "bytes": sum(sum(row["bytes"].values()) for row in rows),
        "packets": packets_sent() - packets,
    }


def main(report: Path, ports: list[str]) -> None:
    rank = int(os.environ["RANK"])
    results = {}
    for network, port in zip(NETWORKS, ports, strict=True):
        os.environ["MASTER_PORT"] = port
        results[network] = train(network, report.with_suffix(f".{network}.{rank}"))
    if rank == 0:
        report.write_text(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
