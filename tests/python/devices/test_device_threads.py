# SPDX-License-Identifier: Apache-2.0
"""Which threads use an accelerator's runtime, and what that may cost the process."""

from __future__ import annotations

import gc
from collections.abc import Callable
from datetime import timedelta

import fake_device
import pytest
import torch
import torch.distributed as dist
from exact import assert_same
from harness import Pool
from waiting import wait_until

pytestmark = pytest.mark.timeout(1800)  # the first one may build the fake accelerator

RANKS = 2
LARGE = 4 << 20  # elements: 32 lanes of float32


def use_all_ways(device: torch.device) -> None:
    """Operations with a wait, with a callback, dropped without a wait, and in a batch."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for count in (1, LARGE):
        tensor = torch.ones(count, device=device)
        dist.all_reduce(tensor)
        dist.broadcast(torch.ones(count, 2, device=device)[:, 1], 0)
        for _ in range(3):
            dist.all_reduce(torch.ones(count, device=device), async_op=True)
        work = dist.all_reduce(tensor, async_op=True)
        assert work is not None
        work.get_future().then(lambda future: future.value()).wait()
        works = dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, tensor, 1 - rank),
                dist.P2POp(dist.irecv, torch.empty_like(tensor), 1 - rank),
            ]
        )
        for work in works:
            work.wait()
        assert_same(tensor.cpu(), torch.full((count,), float(size * size)), count)


def check_contexts() -> None:
    """No thread of ours is set to a device that the process does not use."""
    device = torch.device(fake_device.accelerator().type, 1)
    torch.accelerator.set_device_index(1)
    fake_device.ops().take_contexts()
    use_all_ways(device)
    dist.barrier()
    gc.collect()
    # Operations dropped without a wait are gone, too, once nothing holds their memory.
    wait_until(lambda: fake_device.ops().events() == 0, "all events are gone", limit_s=100)
    assert set(fake_device.ops().take_contexts()) <= {1}
    torch.accelerator.set_device_index(0)
    fake_device.settle(device)


def test_contexts(own_pool: Callable[..., Pool], accelerator: str) -> None:
    if accelerator != "fake":
        pytest.skip("only the fake accelerator tells which contexts were made")
    with own_pool(RANKS, TEST_ACCELERATOR=accelerator) as pool:
        pool.run(check_contexts)


def check_slow_queries() -> None:
    """A rank whose device is slow to answer queries still counts as alive."""
    device = fake_device.accelerator()
    store = dist.distributed_c10d._get_default_store()
    tensor = torch.ones(LARGE, device=device)
    torch.accelerator.synchronize(device)
    if dist.get_rank() == 0:
        fake_device.ops().hold_queries()
    work = dist.all_reduce(tensor, async_op=True)
    assert work is not None
    if dist.get_rank() == 0:
        store.wait(["waited"], timedelta(seconds=100))
        fake_device.ops().release_queries()
    else:
        with pytest.raises(dist.DistBackendError, match=r"timed out waiting .* still running"):
            work.wait(timedelta(seconds=5))
        store.set("waited", "1")
    work.wait()
    assert_same(tensor.cpu(), torch.full((LARGE,), float(dist.get_world_size())), "result")
    fake_device.settle(device)


def test_slow_queries(own_pool: Callable[..., Pool], accelerator: str) -> None:
    if accelerator != "fake":
        pytest.skip("only the fake accelerator can be told to keep its callers waiting")
    with own_pool(RANKS, TEST_ACCELERATOR=accelerator, ROCECOLL_PEER_TIMEOUT="1") as pool:
        pool.run(check_slow_queries)
