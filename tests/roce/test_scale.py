# SPDX-License-Identifier: Apache-2.0
"""Many ranks, each a process with a queue pair of its own to every other, on the devices of a wire."""

from __future__ import annotations

import re
import threading

import bed
import numpy as np
import pytest
from core_alone import core
from job import Job, Rank
from sums import add_up

RANKS = 64 if bed.NIGHTLY else 32
BLOCK = 1000  # of int32 for each rank in all_to_all, too much to go by way of others
LIMIT_S = 600.0
# A process of many may get no processor for longer than the 4 s after which a rank counts as lost. And
# heartbeats of 4032 ends at the default rate are all that a slow processor has time for.
PATIENT = {"ROCECOLL_PEER_TIMEOUT": "300"}
# "again": a path that broke before it could be told of.
OVER_ROCE = re.compile(r"ranks \d+ and (\d+) .*: (?:again )?RoCE, reliable connection over ")


def exchange(rank: Rank) -> None:
    count, everyone = rank.size, np.arange(rank.size, dtype=np.int32)
    sent = np.repeat(everyone * count + rank.number, BLOCK)
    received = np.zeros(count * BLOCK, np.int32)
    assert rank.group.all_to_all(sent, received, "int32").wait(LIMIT_S)
    assert (received == np.repeat(rank.number * count + everyone, BLOCK)).all()


class Meetings(threading.Thread):
    """Reads the log until it has said of each pair of this rank that RoCE carries it.

    At once, as a program's log does: it keeps no more than 256 entries that nobody has read.
    """

    def __init__(self, rank: Rank) -> None:
        super().__init__(daemon=True)
        self._missing = set(range(rank.size)) - {rank.number}

    def run(self) -> None:
        while self._missing and (entry := core.take_log_entry(LIMIT_S)) is not None:
            if match := OVER_ROCE.search(entry[1]):
                self._missing.discard(int(match.group(1)))

    def wait(self) -> None:
        self.join(LIMIT_S)
        assert not self._missing, f"no RoCE with {self._missing}"


def meet_everybody(rank: Rank) -> int:
    """How many queue pairs are on this rank's device when all have met over RoCE."""
    meetings = Meetings(rank)
    meetings.start()
    for elements in (0, 1, 10_007):
        add_up(rank, elements)
    exchange(rank)
    meetings.wait()
    exchange(rank)
    add_up(rank, 10_007)
    assert rank.group.barrier().wait(LIMIT_S)
    # A program that is started takes User-Mode Linux long, so not all ranks ask.
    held = bed.resource_counts()[rank.end.device]["qp"] if rank.number < 2 else 0
    assert rank.group.barrier().wait(LIMIT_S)
    return held


@pytest.mark.timeout(1800)
def test_many_ranks_meet_over_rc_and_leave_nothing() -> None:
    before = bed.resource_counts()
    with Job(RANKS, meet_everybody, "rc", variables=PATIENT, timeout_s=LIMIT_S) as job:
        held = job.values(limit_s=2 * LIMIT_S)
    # On a busy machine some may be between two attempts. Half of all ends are on each device.
    assert min(held[:2]) > RANKS * (RANKS - 1) // 4, held
    bed.wait_until(lambda: bed.resource_counts() == before, f"back to {before}")
