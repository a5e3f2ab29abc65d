# SPDX-License-Identifier: Apache-2.0
"""The handwritten digits train over RoCE as they do over gloo: equal losses after every epoch."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

if "SOFTROCE_DEVICES" not in os.environ:
    pytest.skip("needs RoCE devices: ./scripts/softroce test", allow_module_level=True)

PROGRAM = Path(__file__).with_name("programs") / "digits.py"
NETWORKS = 4  # of the program
RANKS = 2
LIMIT_S = 500
END_S = 60
# The sums are equal but for the order of additions.
LOSS_BAR = 1e-9
MTU_BYTES = 4096


def free_ports(count: int) -> list[str]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [str(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Each rank has a device of its own: one device does not send to itself over the wire."""
    directory = tmp_path_factory.mktemp("digits")
    report = directory / "report"
    command = [sys.executable, str(PROGRAM), str(report), *free_ports(NETWORKS)]
    devices = os.environ["SOFTROCE_DEVICES"].split()
    common = {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
    common["ROCECOLL_FAILOVER"] = "0"  # or UDP would do instead
    common["ROCECOLL_SHM"] = "0"  # or memory would
    logs = [directory / f"rank{rank}.log" for rank in range(RANKS)]
    ranks = []
    for rank, log in enumerate(logs):
        own = {"RANK": str(rank), "ROCECOLL_IB_HCA": f"={devices[rank]}"}
        with log.open("w") as output:
            ranks.append(
                subprocess.Popen(
                    command, env=os.environ | common | own, stdout=output, stderr=output
                )
            )
    try:
        deadline = time.monotonic() + LIMIT_S
        while {rank.poll() for rank in ranks} == {None} and time.monotonic() < deadline:
            time.sleep(0.1)
        # A rank that fails leaves the other waiting; one that succeeds does not end much earlier.
        for rank in ranks:
            rank.wait(END_S)
    except subprocess.TimeoutExpired:
        pass  # its status and output tell
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert [rank.returncode for rank in ranks] == [0] * RANKS, "\n".join(
        log.read_text() for log in logs
    )
    results: dict[str, Any] = json.loads(report.read_text())
    return results


@pytest.mark.parametrize("transport", ["default", "rc", "ud"])
def test_loss_curve_is_that_of_gloo(trainings: dict[str, Any], transport: str) -> None:
    gloo, ours = trainings["gloo"], trainings[transport]
    assert ours["losses"] == pytest.approx(gloo["losses"], rel=LOSS_BAR)
    assert len(ours["losses"]) == 2
    # The gradients travelled in RoCE packets.
    assert gloo["packets"] == 0
    assert ours["packets"] >= ours["bytes"] / MTU_BYTES
