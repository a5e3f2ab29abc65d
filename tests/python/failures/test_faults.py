# SPDX-License-Identifier: Apache-2.0
"""The faulty network really is faulty, and what it breaks is repaired and counted."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

pytestmark = pytest.mark.quick


def exchange(turns: int) -> dict[str, int]:
    import rocecoll

    size = dist.get_world_size()
    for _ in range(turns):
        tensor = torch.ones(50_000)
        dist.all_reduce(tensor)
        assert (tensor == size).all()
    return rocecoll.stats()


@pytest.mark.parametrize("fault", ["loss=0.05", "loss=0.3", "loss=0.05,reorder=0.2,delay_us=300"])
def test_losses_are_repaired(own_pool, network, fault: str) -> None:
    with own_pool(2, ROCECOLL_FAULT=f"{fault},seed=5") as pool:
        assert sum(stats["packets_retransmitted"] for stats in pool.run(exchange, 20)) > 0


def test_corruption_is_noticed(own_pool, network) -> None:
    with own_pool(2, ROCECOLL_FAULT="corrupt=0.1,seed=5") as pool:
        assert sum(stats["packets_dropped_invalid"] for stats in pool.run(exchange, 20)) > 0


@pytest.mark.parametrize("fault", ["duplicate=0.5", "reorder=0.5"])
def test_duplicates_and_disorder_do_no_harm(own_pool, network, fault: str) -> None:
    with own_pool(3, ROCECOLL_FAULT=f"{fault},seed=5") as pool:
        pool.run(exchange, 20)


@pytest.mark.lossy
def test_shared_pool_uses_the_network(shared_pool, network: str) -> None:
    """What the tests marked lossy rely on."""
    retransmitted = sum(
        stats["packets_retransmitted"] for stats in shared_pool(2).run(exchange, 30)
    )
    assert retransmitted > 0 or network == "clean"
