# SPDX-License-Identifier: Apache-2.0
"""While a stream is captured into a graph: what is refused, and what goes on."""

from __future__ import annotations

from collections.abc import Callable

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
REFUSED = r"current stream of fake:0 is being captured into a graph.*Nothing was sent"


def only_fake(device_pool: Callable[[int], Pool], accelerator: str) -> Pool:
    if accelerator != "fake":
        pytest.skip("only the fake accelerator's copies can be held")
    return device_pool(RANKS)


def check_calls() -> None:
    """Each is refused, which harms neither the capture nor the group."""
    device = fake_device.accelerator()
    rank, size = dist.get_rank(), dist.get_world_size()
    tensor = torch.ones(1000, device=device)
    strided = torch.ones(1000, 2, device=device)[:, 1]
    torch.accelerator.synchronize(device)
    fake_device.ops().begin_capture(device)
    for refused in (
        lambda: dist.all_reduce(tensor),
        lambda: dist.all_reduce(strided, async_op=True),
        lambda: dist.broadcast(tensor, 0),
        lambda: dist.isend(tensor, 1 - rank),
        lambda: dist.irecv(tensor, 1 - rank),
        lambda: dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, 1 - rank)]),
    ):
        with pytest.raises(RuntimeError, match=REFUSED):
            refused()
    dist.all_reduce(torch.ones(10))  # of the CPU
    assert fake_device.ops().end_capture(), "the capture was disturbed"
    dist.all_reduce(tensor)
    assert_same(tensor.cpu(), torch.full((1000,), float(size)), "after the capture")
    fake_device.settle(device)


def test_calls(device_pool: Callable[[int], Pool], accelerator: str) -> None:
    only_fake(device_pool, accelerator).run(check_calls)


def check_pending_operations() -> None:
    """Operations called before the capture go on, and do not disturb it."""
    device = fake_device.accelerator()
    size = dist.get_world_size()
    tensors = [torch.ones(LARGE, device=device), torch.ones(2, 1000, device=device).t()]
    torch.accelerator.synchronize(device)
    for held in ("d2h", "h2d"):
        for tensor in tensors:
            tensor.fill_(1)
        torch.accelerator.synchronize(device)
        dist.barrier()
        fake_device.ops().hold_copies(held, 0)
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        fake_device.ops().begin_capture(device)
        if held == "h2d":
            for work in works:
                assert work is not None
                with pytest.raises(RuntimeError, match=r"wait\(\) while the current stream"):
                    work.wait()
        fake_device.ops().release_copies()
        for work in works:
            assert work is not None
            wait_until(work.is_completed, "the pending operations are complete", limit_s=200)
            work.wait()
        assert fake_device.ops().end_capture(), "the capture was disturbed"
        for tensor in tensors:
            assert_same(tensor.cpu(), torch.full(tensor.shape, float(size)), held)
    fake_device.settle(device)


def test_pending_operations(device_pool: Callable[[int], Pool], accelerator: str) -> None:
    only_fake(device_pool, accelerator).run(check_pending_operations)
