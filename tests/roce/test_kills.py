# SPDX-License-Identifier: Apache-2.0
"""A rank is killed in the middle of operations: its death itself is noticed, by every survivor."""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Callable

import numpy as np
import pytest
from job import Job, Rank

# Far below the time after which silence would be taken for death.
LIMIT_S = 60.0
PATIENT = {"ROCECOLL_PEER_TIMEOUT": "150"}
ELEMENTS = (1, 1000, 50_000, 400_000)


def operate_for_ever(rank: Rank) -> None:
    """Messages of every kind: inline, eager, by RDMA writes into blocks and into user memory."""
    for turn in itertools.count():
        size = ELEMENTS[turn % len(ELEMENTS)]
        data = np.ones(size, np.float32)
        rank.group.all_reduce(data, "float32").wait()
        assert (data == rank.size).all()
        block = np.ones(size // rank.size + 1, np.float32)
        gathered = np.zeros(len(block) * rank.size, np.float32)
        rank.group.all_gather(block, gathered, "float32").wait()
        if turn == 0:
            rank.tell("begun")


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("transport", ["rc", "ud"])
def test_killed_ranks_are_named(
    transport: str, request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> None:
    slowest_s, source = 0.0, random.Random(transport)
    for turn in range(request.config.getoption("kills")):
        size = (2, 3)[turn % 2]
        victim = turn // 2 % size
        with Job(size, operate_for_ever, transport, variables=PATIENT) as job:
            assert [job.told(rank) for rank in range(size)] == ["begun"] * size
            time.sleep(source.uniform(0, 0.05))  # so that it is in the middle of anything
            killed_at = job.kill(victim)
            for rank, outcome in enumerate(job.outcomes()):
                if rank == victim:
                    continue
                text = f"{type(outcome.error).__name__}: {outcome.error}"
                assert isinstance(outcome.error, ConnectionError), f"turn {turn}: {text}"
                assert re.search(rf"\brank {victim}\b", text), f"turn {turn}: {text}"
                slowest_s = max(slowest_s, outcome.at - killed_at)
                assert slowest_s < LIMIT_S, f"turn {turn}: {text}"
    record_property("slowest_s", round(slowest_s, 2))
