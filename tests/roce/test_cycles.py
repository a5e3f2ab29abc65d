# SPDX-License-Identifier: Apache-2.0
"""Queue pairs are made, used and destroyed many times over, and nothing adds up."""

from __future__ import annotations

import os

import bed
import numpy as np
import pytest
from job import Job, Rank


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("transport", ["rc", "ud"])
def test_links_open_and_close(transport: str, request: pytest.FixtureRequest) -> None:
    cycles = request.config.getoption("cycles")

    def body(rank: Rank) -> None:
        def cycle(number: int) -> None:
            group = rank.make_group(number.to_bytes(16, "little"))
            data = np.full(5000, rank.number + number, np.int64)
            assert group.all_reduce(data, "int64").wait()
            assert (data == 2 * number + 1).all()
            assert group.barrier().wait()
            group.close()

        def held() -> dict[str, int]:
            return bed.resource_counts()[rank.end.device]

        for number in range(1, 11):
            cycle(number)
        rank.group.barrier().wait()
        bed.wait_until(lambda: held()["qp"] == 2, "the kernel's own queue pair and one of ours")
        early = held()
        descriptors = len(os.listdir("/proc/self/fd"))
        for number in range(11, cycles + 1):
            cycle(number)
        rank.group.barrier().wait()
        bed.wait_until(lambda: held() == early, f"back to {early}")
        assert len(os.listdir("/proc/self/fd")) == descriptors

    with Job(2, body, transport) as job:
        job.values(limit_s=1500)
    for outcome in job.outcomes():
        assert not outcome.warnings(), outcome.log
