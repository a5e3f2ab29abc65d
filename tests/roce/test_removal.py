# SPDX-License-Identifier: Apache-2.0
"""A device is removed in the middle of a job: nobody hangs, and every result is exact."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import bed
import pytest
from job import Job, Rank
from second_wire import second_wire
from sums import MORE_ROUNDS, add_up_in_a_new_group, add_up_until_asked


def go_on(rank: Rank) -> int:
    rounds = add_up_until_asked(rank)
    add_up_in_a_new_group(rank)
    return rounds


def listed(device: str) -> bool:
    return any(link["ifname"] == device for link in json.loads(bed.run("rdma", "-j", "link")))


def exists(kind: str, name: str) -> bool:
    return Path(f"/sys/class/{kind}/{name}").exists()


@pytest.fixture
def first_end() -> Iterator[bed.End]:
    """A test may remove its device, which later ones find again."""
    end = bed.ends()[0]
    try:
        yield end
    finally:
        if not listed(end.device):
            bed.run("rdma", "link", "add", end.device, "type", "rxe", "netdev", end.interface)
        indexes = [bed.wait_for_gid(one.device, one.address) for one in bed.ends()]
        os.environ["SOFTROCE_GID_INDEXES"] = " ".join(str(index) for index in indexes)
        bed.wait_until(lambda: bed.is_active(end.device), "the port is up")


@pytest.mark.parametrize("transport", ["rc", "ud", "auto"])
def test_a_device_that_is_deleted_serves_the_job_to_its_end(
    first_end: bed.End, transport: str
) -> None:
    """rxe cannot be taken from who has it open: the kernel hides it, and waits for them."""
    with Job(2, go_on, transport) as job:
        assert [job.told(0), job.told(1)] == ["begun", "begun"]
        removal = subprocess.Popen(["rdma", "link", "delete", first_end.device])
        bed.wait_until(lambda: not listed(first_end.device), "it is hidden")
        job.ask()
        assert min(job.values()) > MORE_ROUNDS
    assert removal.wait(bed.DEADLINE_S) == 0
    assert not exists("infiniband", first_end.device)


@pytest.mark.parametrize("transport", ["rc", "ud", "auto"])
def test_the_interface_below_a_device_vanishes(transport: str) -> None:
    """As when a NIC is unplugged: both devices of the wire have lost it, and are removed."""
    with second_wire() as wire:
        own = {rank: {"ROCECOLL_IB_HCA": f"={wire[rank].device}"} for rank in (0, 1)}
        with Job(2, go_on, transport, own=own) as job:
            assert [job.told(0), job.told(1)] == ["begun", "begun"]
            removal = subprocess.Popen(["ip", "link", "delete", wire[0].interface])
            bed.wait_until(lambda: not exists("net", wire[0].interface), "it is gone")
            job.ask()
            assert min(job.values()) > MORE_ROUNDS
            outcomes = job.outcomes()
        assert removal.wait(bed.DEADLINE_S) == 0
        for end in wire:
            bed.wait_until(lambda device=end.device: not exists("infiniband", device), "so is it")
    for outcome in outcomes:
        assert outcome.said("info", "RoCE"), outcome.log
    assert any(outcome.said("warning", "over UDP") for outcome in outcomes)
