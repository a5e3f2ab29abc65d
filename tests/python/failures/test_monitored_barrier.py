# SPDX-License-Identifier: Apache-2.0
"""monitored_barrier() says which ranks are missing, in gloo's words."""

from __future__ import annotations

import re
import time
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
    """All ranks are told, also those that come too late."""
    with own_pool(4) as pool:
        pool.run(enter, 200.0, wait_all_ranks)
        first, other = pool.attempt(enter, 1.0, wait_all_ranks, ranks=[0, 2])
        named = "Ranks 1, 3 failed" if wait_all_ranks else "Rank 1 failed"
        told = f"monitoredBarrier: {named} to pass monitoredBarrier in 1000 ms"
        assert first.error and told in first.error
        # Ranks 1 and 3 come to a group that has failed.
        late = pool.attempt(enter, 1.0, wait_all_ranks, ranks=[1, 3])
        for rank, outcome in [(2, other), *zip([1, 3], late, strict=True)]:
            assert outcome.error and told in outcome.error
            assert f"Rank {rank} successfully reached monitoredBarrier" in outcome.error
            assert re.search(r"rank 0 \([^)]*\) reported: timeout: Process", outcome.error)


def enter_part(limits_s: dict[int, float]) -> None:
    """Those of ranks 1 and 2 that have a limit enter, one after the other. All make the group."""
    group = dist.new_group([1, 2])
    store = dist.distributed_c10d._get_default_store()
    if (limit_s := limits_s.get(dist.get_rank())) is None:
        return
    if dist.get_rank() == 2:
        store.wait(["rank 1 has gone"])
    try:
        group.monitored_barrier(timedelta(seconds=limit_s))
    finally:
        store.set(f"rank {dist.get_rank()} has gone", "")


def test_ranks_of_a_part_have_their_global_numbers(own_pool) -> None:
    with own_pool(3) as pool:
        waiting = pool.attempt(enter_part, {1: 1.0})[1]
        assert waiting.error and "Rank 2 failed to pass monitoredBarrier" in waiting.error
    with own_pool(3) as pool:
        first, other = pool.attempt(enter_part, {1: 0.0, 2: 200.0})[1:]
        assert first.error and "Rank 1 timed out in monitoredBarrier after 0 ms" in first.error
        assert other.error and "Rank 2 successfully reached monitoredBarrier" in other.error
        assert "while waiting for send/recv from rank 1: " in other.error


def enter_after_others(limit_s: float) -> None:
    """The first rank comes when the limit of the others, which came before it, has passed."""
    store = dist.distributed_c10d._get_default_store()
    others = [f"rank {rank} comes" for rank in range(1, dist.get_world_size())]
    if dist.get_rank() == 0:
        store.wait(others)
        time.sleep(2 * limit_s)
        enter(200.0, False)
    else:
        store.set(others[dist.get_rank() - 1], "")
        enter(limit_s, False)


def test_the_first_rank_may_be_late(own_pool) -> None:
    with own_pool(3) as pool:
        pool.run(enter_after_others, 0.2)
        assert pool.run(reduce) == [3.0] * 3
