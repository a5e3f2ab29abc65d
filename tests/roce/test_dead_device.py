# SPDX-License-Identifier: Apache-2.0
"""A device dies for good in the middle of a job, as one that is pulled out of a running host.

rxe never does; tests/quirky_nic, preloaded, plays it.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from job import Job, Rank
from sums import MORE_ROUNDS, add_up, add_up_in_a_new_group

pytestmark = pytest.mark.skipif(
    "QUIRKY_NIC" not in os.environ, reason="tests/quirky_nic is not preloaded"
)


def go_on(rank: Rank, victims: tuple[int, ...]) -> None:
    """The devices of the victims die between the call of an operation and its end."""
    for turn in range(2):
        add_up(rank, turn=turn)
    rank.group.barrier().wait()
    data = np.full(4_000_001, rank.number + 1, np.int32)
    operation = rank.group.all_reduce(data, "int32")
    if rank.number in victims:
        os.environ["QUIRKY_NIC"] = "alive=0"
    assert operation.wait()
    assert (data == 3).all()
    for turn in range(MORE_ROUNDS):
        add_up(rank, turn=turn)
    add_up_in_a_new_group(rank)


@pytest.mark.parametrize("victims", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("transport", ["rc", "ud", "auto"])
def test_the_job_goes_on_over_udp(transport: str, victims: tuple[int, ...]) -> None:
    with Job(2, lambda rank: go_on(rank, victims), transport) as job:
        job.values()
        outcomes = job.outcomes()
    for rank in victims:
        assert outcomes[rank].said("warning", "has failed or was taken away"), outcomes[rank].log
    assert any(outcome.said("warning", "over UDP") for outcome in outcomes)
