# SPDX-License-Identifier: Apache-2.0
"""The handwritten digits train over RoCE as they do over gloo: equal losses after every epoch.

Runs in a bed (docs/softroce.md). torch is imported once, and the ranks are forked from here.
"""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

import pytest

if "SOFTROCE_DEVICES" not in os.environ:
    pytest.skip("needs RoCE devices: ./scripts/softroce test", allow_module_level=True)

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

import torch.distributed as dist
import train_digits

import rocecoll

DEVICES = os.environ["SOFTROCE_DEVICES"].split()
RANKS = 2
EPOCHS = 2
LIMIT_S = 200
# As scripts/demo.py: the sums are equal, but for the order of additions.
LOSS_BAR = 1e-9


def rank_main(directory: Path, rank: int, backend: str, transport: str) -> None:
    """Each rank has a device of its own: one device does not send to itself over the wire."""
    with (directory / f"rank{rank}.log").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(RANKS),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": os.environ["TEST_PORT"],
        "ROCECOLL_TRANSPORT": transport,
        "ROCECOLL_IB_HCA": f"={DEVICES[rank % len(DEVICES)]}",
        "ROCECOLL_FAILOVER": "0",
    }
    train_digits.main(backend=backend, epochs=EPOCHS, report=directory / "report.jsonl")
    (directory / f"bytes{rank}").write_text(str(rocecoll.stats()["bytes_sent"]))


def packets_sent() -> int:
    """By all devices of this guest, from Soft-RoCE's own counters."""
    counters = Path("/sys/class/infiniband").glob("*/ports/1/hw_counters/sent_pkts")
    return sum(int(counter.read_text()) for counter in counters)


@functools.cache
def losses(backend: str, transport: str = "udp") -> list[float]:
    before = packets_sent()
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        os.environ["TEST_PORT"] = str(store.port)
        os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"  # the store is here, not in rank 0
        arguments = [(directory, rank, backend, transport) for rank in range(RANKS)]
        ranks = [fork.Process(target=rank_main, args=args) for args in arguments]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join(LIMIT_S)
            rank.kill()
            rank.join()
        output = "".join(path.read_text() for path in sorted(directory.glob("*.log")))
        assert [rank.exitcode for rank in ranks] == [0] * RANKS, output
        rows = [json.loads(line) for line in (directory / "report.jsonl").read_text().splitlines()]
        if backend == "rocecoll":
            sent = sum(int(path.read_text()) for path in directory.glob("bytes*"))
            # Gradients travelled in RoCE packets, of at most 4096 bytes each.
            assert packets_sent() - before >= sent / 4096, output
    assert len(rows) == EPOCHS
    return [row["loss"] for row in rows]


@pytest.mark.parametrize("transport", ["rc", "ud"])
def test_loss_curve_is_that_of_gloo(transport: str) -> None:
    assert losses("rocecoll", transport) == pytest.approx(losses("gloo"), rel=LOSS_BAR)
