# SPDX-License-Identifier: Apache-2.0
"""monitored_barrier() says who is missing, in gloo's words."""

from __future__ import annotations

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

pytestmark = pytest.mark.quick


def enter(limit_s: float, wait_all_ranks: bool) -> None:
    group = dist.distributed_c10d._get_default_group()
    group.monitored_barrier(timedelta(seconds=limit_s), wait_all_ranks=wait_all_ranks)


def reduce() -> float:
    tensor = torch.ones(())
    dist.all_reduce(tensor)
    return tensor.item()


@pytest.mark.parametrize("wait_all_ranks", [False, True])
def test_all_come(shared_pool, wait_all_ranks: bool) -> None:
    pool = shared_pool(3)
    for _ in range(3):
        pool.run(enter, 200.0, wait_all_ranks)
    assert pool.run(reduce) == [3.0] * 3


@pytest.mark.parametrize("wait_all_ranks", [False, True])
def test_missing_ranks(own_pool, wait_all_ranks: bool) -> None:
    with own_pool(4) as pool:
        pool.run(enter, 200.0, wait_all_ranks)
        first, other = pool.attempt(enter, 8.0, wait_all_ranks, ranks=[0, 2])
        named = "Ranks 1, 3 failed" if wait_all_ranks else "Rank 1 failed"
        assert first.error and f"{named} to pass monitoredBarrier in 8000 ms" in first.error
        assert other.error and "Rank 2 successfully reached monitoredBarrier" in other.error
