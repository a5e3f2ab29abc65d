# SPDX-License-Identifier: Apache-2.0
"""Ranks with two ports each, on two wires without a route between them: the rails of a cluster."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import bed
import pytest
from job import Job, Rank, drain_log
from second_wire import second_wire
from sums import add_up, any_asked

ELEMENTS = 1 << 20  # of int32: writes of far more than the 64 KiB from which on they are cut
NO_PATIENCE = {"ROCECOLL_IB_TIMEOUT": "12"}  # a wire that loses nothing: it is silent, or well

Wires = tuple[Sequence[bed.End], Sequence[bed.End]]


@pytest.fixture(scope="module")
def wires() -> Iterator[Wires]:
    """The bed's wire and a second one; end 0 of each is rank 0's."""
    with second_wire() as second:
        yield bed.ends(), second


def takes(*ends: bed.End) -> dict[str, str]:
    """Of a rank that is alone on its host and has these devices."""
    devices = ",".join(end.device for end in ends)
    alone = {"LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    # It is not alone, and would keep the only processor that some beds have.
    return alone | {"ROCECOLL_IB_HCA": f"={devices}", "ROCECOLL_SPIN_US": "0"}


def sent_on(*ends: bed.End) -> list[int]:
    return [bed.sent_bytes(end.interface) for end in ends]


def add_up_large(rank: Rank) -> None:
    for turn in range(4):
        add_up(rank, ELEMENTS + turn, turn)
    rank.group.barrier().wait()


def grown(own: dict[int, dict[str, str]], ends: Sequence[bed.End]) -> tuple[Job, list[int]]:
    """Large sums; by how many bytes what left each end has grown."""
    before = sent_on(*ends)
    with Job(2, add_up_large, "rc", own=own) as job:
        job.values()
        job.outcomes()
    return job, [after - was for after, was in zip(sent_on(*ends), before, strict=True)]


def test_large_operations_use_both_rails(wires: Wires) -> None:
    first, second = wires
    ends = (*first, *second)
    packets = [bed.hw_counters(end.device)["sent_pkts"] for end in ends]
    own = {rank: takes(first[rank], second[rank]) for rank in (0, 1)}
    job, sent = grown(own, ends)
    payload = 4 * ELEMENTS * 4  # of a rank: with two of them, as much as the tensors have
    assert min(sent) > payload // 4, f"of {payload} bytes each, half to each rail: {sent}"
    for end, before in zip(ends, packets, strict=True):
        assert bed.hw_counters(end.device)["sent_pkts"] > before
    for rank, outcome in enumerate(job.outcomes()):
        ports = f"{first[rank].device} port 1", f"{second[rank].device} port 1"
        assert outcome.said("info", "ranks ", "RoCE, reliable connection over", *ports), outcome.log
        assert not outcome.warnings(), outcome.log


def test_a_pair_uses_as_many_rails_as_both_have(wires: Wires) -> None:
    first, second = wires
    own = {0: takes(first[0], second[0]), 1: takes(first[1])}
    job, sent = grown(own, (*first, *second))
    payload = 4 * ELEMENTS * 4
    assert min(sent[:2]) > payload, sent
    assert max(sent[2:]) < payload // 100, sent
    for outcome in job.outcomes():
        assert outcome.said("info", "ranks ", "RoCE, reliable connection over"), outcome.log
        assert not outcome.warnings(), outcome.log


def add_up_and_tell(rank: Rank) -> list[tuple[str, str]]:
    """Tells the test what the log says, as soon as it says so, and returns all of it."""
    said: list[tuple[str, str]] = []
    for turn in itertools.count():
        add_up(rank, ELEMENTS // 4 + turn % 3, turn % 1000)
        if turn == 1:
            rank.tell(("begun", ""))
        entries = drain_log()
        for entry in entries:
            rank.tell(entry)
        said += entries
        if any_asked(rank):
            return said
    raise AssertionError("unreachable")


def wait_for_word(job: Job, rank: int, severity: str, *parts: str) -> None:
    """Until this rank's log has an entry with all these parts."""
    while True:
        level, text = job.told(rank)
        if level == severity and all(part in text for part in parts):
            return


def wait_for_traffic(ends: Sequence[bed.End], what: str) -> None:
    """Until some operations more have left each end."""
    goals = [sent + (8 << 20) for sent in sent_on(*ends)]
    bed.wait_until(
        lambda: all(now > goal for now, goal in zip(sent_on(*ends), goals, strict=True)), what
    )


@pytest.mark.parametrize("lost", [0, 1])
def test_a_wire_that_goes_down_hands_its_part_over_and_has_it_back(wires: Wires, lost: int) -> None:
    own = {rank: takes(*(wire[rank] for wire in wires)) for rank in (0, 1)}
    down, other = wires[lost], wires[1 - lost]
    with Job(2, add_up_and_tell, "rc", own=own) as job:
        for rank in (0, 1):
            wait_for_word(job, rank, "begun")
        with bed.link_down(down[0], down):
            for rank in (0, 1):
                ports = f"{down[rank].device} port 1", f"over {other[rank].device} port 1"
                wait_for_word(job, rank, "warning", *ports)
            wait_for_traffic(other, "the other wire carries operations alone")
        for rank in (0, 1):
            wait_for_word(job, rank, "info", f"{down[rank].device} port 1", "works again")
        wait_for_traffic(down, "the wire that was down has its part back")
        job.ask()
        logs = job.values()
    for log in logs:
        assert not any("over UDP" in text or "UDP: " in text for _, text in log), log


@pytest.mark.parametrize(("transport", "severity"), [("rc", "warning"), ("auto", "info")])
def test_ranks_on_different_wires_use_udp_and_say_so(
    wires: Wires, transport: str, severity: str
) -> None:
    first, second = wires
    own = {0: takes(first[0]) | NO_PATIENCE, 1: takes(second[1]) | NO_PATIENCE}
    with Job(2, add_up_large, transport, own=own) as job:
        job.values()
        outcomes = job.outcomes()
    for outcome in outcomes:
        assert outcome.said(severity, "ranks ", "UDP: "), outcome.log
        assert not outcome.said("info", "RoCE, reliable connection over"), outcome.log
