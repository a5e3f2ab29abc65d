# SPDX-License-Identifier: Apache-2.0
"""The handwritten digits train over RoCE as they do over gloo: equal losses after every epoch."""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import socket
from multiprocessing.connection import wait
from typing import Any

import bed
import pytest

RANKS = 2
EPOCHS = 2 if bed.NIGHTLY else 1
LIMIT_S = 500
END_S = 60
# The sums are equal but for the order of additions.
LOSS_BAR = 1e-9
MTU_BYTES = 4096
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
_fork = multiprocessing.get_context("fork")


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def keep_memory() -> None:
    """What is freed is used again: each page that is touched first takes User-Mode Linux long."""
    for setting in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
        assert ctypes.CDLL(None).mallopt(setting, 1 << 30) == 1


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Each rank has a device of its own: one device does not send to itself over the wire.

    They are forked from this process, which has torch: its import takes seconds in a guest.
    """
    common = {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
    common["ROCECOLL_FAILOVER"] = "0"  # or UDP would do instead
    common["ROCECOLL_SHM"] = "0"  # or memory would
    os.environ.update(common)
    keep_memory()
    import digits

    report = tmp_path_factory.mktemp("digits") / "report"
    ports = free_ports(len(digits.NETWORKS) + 1)
    ranks = []
    for rank, end in enumerate(bed.ends()):
        own = {"RANK": str(rank), "ROCECOLL_IB_HCA": f"={end.device}"}
        arguments = (report, EPOCHS, ports, own)
        ranks.append(_fork.Process(target=digits.train_over_each, args=arguments, daemon=True))
        ranks[-1].start()
    # A rank that fails leaves the other waiting; one that succeeds does not end much earlier.
    wait([rank.sentinel for rank in ranks], LIMIT_S)
    for rank in ranks:
        rank.join(END_S)
        rank.kill()
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0] * RANKS
    results: dict[str, Any] = json.loads(report.read_text())
    return results


@pytest.mark.parametrize("transport", ["default", "rc", "ud"])
def test_loss_curve_is_that_of_gloo(trainings: dict[str, Any], transport: str) -> None:
    gloo, ours = trainings["gloo"], trainings[transport]
    assert ours["losses"] == pytest.approx(gloo["losses"], rel=LOSS_BAR)
    assert len(ours["losses"]) == EPOCHS
    # The gradients travelled in RoCE packets.
    assert gloo["packets"] == 0
    assert ours["packets"] >= ours["bytes"] / MTU_BYTES


def test_a_reconfigured_group_uses_rc(trainings: dict[str, Any]) -> None:
    told = trainings["reconfigured"]
    assert told["ranks"] == [0, 1] and told["value"] == [1.0]  # which was rank 1's
    assert told["packets"] > (1 << 20) / MTU_BYTES
