# SPDX-License-Identifier: Apache-2.0
"""rocecoll doctor --store at both ends of the wire: RoCE is tried, and what stops it is named.

Both are forked from the test's process, which has torch: its import takes seconds in a guest.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import sys
from pathlib import Path
from typing import Any

import bed
import pytest

from rocecoll.cli import app
from rocecoll.runtime import load_torch

LIMIT_S = 300.0
COMMAND = ("rocecoll", "doctor", "--json", "--ranks", "2", "--wait-s", "200")
_fork = multiprocessing.get_context("fork")


@pytest.fixture(scope="module", autouse=True)
def _torch() -> None:
    load_torch()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def doctor(output: Path, arguments: list[str], variables: dict[str, str]) -> None:
    """What a process does that is a doctor."""
    sys.stdout = output.open("w")
    sys.argv = [*COMMAND, *arguments]
    os.environ.update(variables)
    app.main()


def doctors(directory: Path, *own: dict[str, str]) -> list[dict[str, Any]]:
    """What each of two says; `own` are their variables."""
    place = f"127.0.0.1:{free_port()}"
    outputs = [directory / f"rank{rank}.json" for rank in range(len(own))]
    started = []
    for rank, (end, variables) in enumerate(zip(bed.ends(), own, strict=True)):
        places = {
            "ROCECOLL_SOCKET_IFNAME": f"={end.interface}",
            "ROCECOLL_IB_HCA": f"={end.device}",
        }
        arguments = ["--store", place, "--rank", str(rank)]
        process = _fork.Process(
            target=doctor, args=(outputs[rank], arguments, places | variables), daemon=True
        )
        process.start()
        started.append(process)
    try:
        for process in started:
            process.join(LIMIT_S)
    finally:
        for process in started:
            process.kill()
            process.join()
    texts = [output.read_text() for output in outputs]
    print(*texts)
    return [json.loads(text) for text in texts]


def about_roce(said: dict[str, Any]) -> list[dict[str, str]]:
    return [finding for finding in said["findings"] if finding["subject"] == "RoCE"]


@pytest.mark.parametrize("transport", ["udp", "ud"])
def test_both_ends_measure_it(transport: str, tmp_path: Path) -> None:
    """Also where a job as it is set would do without."""
    one, other = doctors(tmp_path, *[{"ROCECOLL_TRANSPORT": transport}] * 2)
    assert one["roce"] == other["roce"]
    assert one["roce"]["transport"] == ("auto" if transport == "udp" else "ud")
    ports = [(port["name"], port["address"]) for port in one["roce"]["ports"]]
    assert ports == [
        (f"{end.device} port 1, GID {end.gid_index}", end.address) for end in bed.ends()
    ]
    for way in one["roce"]["ways"]:
        assert way["failure"] == "" and way["rtt_us"] > 0 and way["bandwidth_mbit_s"] > 0
    [finding] = about_roce(one)
    assert finding["text"] == "all 2 hosts reach each other over RoCE"


@pytest.mark.parametrize("transport", ["auto", "rc", "ud"] if bed.NIGHTLY else ["auto"])
def test_a_network_that_passes_udp_alone(transport: str, tmp_path: Path) -> None:
    """Between two addresses of one guest UDP takes the loopback, and only RoCE the wire."""
    with bed.netem("loss 100%"):
        one, other = doctors(tmp_path, *[{"ROCECOLL_TRANSPORT": transport}] * 2)
    for said in (one, other):
        assert any("all 2 hosts reach each other on UDP" in f["text"] for f in said["findings"])
        [finding] = about_roce(said)
        assert finding["level"] == "warning"
        assert "do not reach each other over RoCE, while UDP works" in finding["text"]
        assert "UDP port 4791" in finding["text"]


def test_a_host_without_a_port(tmp_path: Path) -> None:
    for said in doctors(tmp_path, {}, {"ROCECOLL_IB_HCA": "=rocecoll_no_such"}):
        [finding] = about_roce(said)
        assert finding["level"] == "note"
        assert "UDP carries what goes to and from" in finding["text"]
        assert bed.ends()[1].address in finding["text"]
        assert "left out by the devices asked for" in finding["text"]


def test_a_port_that_is_down_where_roce_is_required(tmp_path: Path) -> None:
    with bed.link_down(bed.ends()[1]):
        # The wire is a pair of devices: both ports go down with one of them.
        for said in doctors(
            tmp_path, *[{"ROCECOLL_TRANSPORT": "rc", "ROCECOLL_SOCKET_IFNAME": "=lo"}] * 2
        ):
            findings = about_roce(said)
            assert [finding["level"] for finding in findings] == ["problem"] * 2
            assert all("is not active" in finding["text"] for finding in findings)


def test_gids_of_different_families(tmp_path: Path) -> None:
    indexes = os.environ["SOFTROCE_GID_INDEXES6"].split()
    for said in doctors(tmp_path, {}, {"ROCECOLL_IB_GID_INDEX": indexes[1]}):
        [finding] = about_roce(said)
        assert finding["level"] == "warning"
        assert "10.1.0.1 is IPv4, fd10::2 is IPv6" in finding["text"]
