# SPDX-License-Identifier: Apache-2.0
"""Ranks that call different things all get an error that names both, instead of a hang."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

pytestmark = [pytest.mark.quick, pytest.mark.lossy]

GROUP_TIMEOUT_S = 400.0  # not what ends these calls
MISMATCH = "must call the same"  # what every message about a mismatch ends with


def different_collective() -> None:
    if dist.get_rank() == 1:
        dist.broadcast(torch.ones(10), 0)
    else:
        dist.all_reduce(torch.ones(10))


def different_dtype() -> None:
    dist.all_reduce(torch.ones(10, dtype=torch.int32 if dist.get_rank() == 1 else torch.float32))


def different_size() -> None:
    dist.all_reduce(torch.ones(11 if dist.get_rank() == 1 else 10))


def different_large_size() -> None:
    dist.all_reduce(torch.ones(3_000_001 if dist.get_rank() == 1 else 3_000_000))


def different_operation() -> None:
    op = dist.ReduceOp.MAX if dist.get_rank() == 1 else dist.ReduceOp.SUM
    dist.all_reduce(torch.ones(10), op)


def different_blocks() -> None:
    """Rank 1 believes that rank 0 has 7 elements; equal on the whole, on other ranks, too."""
    sizes = [5, 7, *range(2, dist.get_world_size())]
    if dist.get_rank() == 1:
        sizes[0], sizes[-1] = 7, sizes[-1] + (0 if len(sizes) == 2 else 1)
    dist.all_gather([torch.empty(one) for one in sizes], torch.ones(sizes[dist.get_rank()]))


def different_root() -> None:
    # Two ranks take themselves for the root. A root may be done once its message is on its way, and
    # a third rank once the root's message has come. There a later operation fails: the first one
    # that begins after the notice from the rank that found the mismatch.
    dist.broadcast(torch.ones(10), 1 if dist.get_rank() == 1 else 0)
    for _ in range(1000):
        dist.barrier()


CASES = [
    (different_collective, ("all_reduce", "broadcast")),
    (different_dtype, ("float32", "int32")),
    (different_size, ("10", "11")),
    (different_large_size, ("3000000", "3000001")),
    (different_operation, ("SUM", "MAX")),
    (different_blocks, ("all_gather(float32, ",)),
    (different_root, ("root 0", "root 1")),
]


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("call, names", CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_every_rank_learns(own_pool, size: int, call, names: tuple[str, str]) -> None:
    with own_pool(size, timeout_s=GROUP_TIMEOUT_S) as pool:
        # Well under the group's timeout: the mismatch itself is noticed.
        outcomes = pool.attempt(call, limit_s=GROUP_TIMEOUT_S / 2)
        for rank, outcome in enumerate(outcomes):
            assert outcome.error, f"rank {rank} noticed nothing"
            assert MISMATCH in outcome.error, outcome.error
        # The rank that compared the two calls names both; its message reaches every rank.
        for rank, outcome in enumerate(outcomes):
            for name in names:
                assert name in outcome.error, f"rank {rank}: {outcome.error}"


def call_again() -> None:
    dist.all_reduce(torch.ones(1))


def test_group_stays_failed(own_pool) -> None:
    """After a mismatch the ranks' counts no longer agree, so the group refuses further calls."""
    with own_pool(2, timeout_s=GROUP_TIMEOUT_S) as pool:
        pool.attempt(different_size, limit_s=GROUP_TIMEOUT_S / 2)
        for outcome in pool.attempt(call_again, limit_s=GROUP_TIMEOUT_S / 2):
            assert outcome.error and MISMATCH in outcome.error, outcome.error


def shorter_receive() -> None:
    if dist.get_rank() == 0:
        dist.send(torch.ones(10), 1)
    else:
        dist.recv(torch.ones(9), 0)


def test_shorter_receive(own_pool) -> None:
    with own_pool(2, timeout_s=GROUP_TIMEOUT_S) as pool:
        outcomes = pool.attempt(shorter_receive, limit_s=GROUP_TIMEOUT_S / 2)
        assert outcomes[1].error and MISMATCH in outcomes[1].error, outcomes
