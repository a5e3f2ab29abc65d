# SPDX-License-Identifier: Apache-2.0
"""Memory that the caller drops lasts until the copies are done, wherever it comes from. The
allocators of other libraries (DLPack) or processes do not know of our copies."""

from __future__ import annotations

import gc
from collections.abc import Callable

import fake_device
import pytest
import torch
import torch.distributed as dist
from device_failures import abort_in_the_middle
from exact import assert_same
from harness import Pool

pytestmark = pytest.mark.timeout(1800)  # the first one may build the fake accelerator

RANKS = 2
LARGE = 4 << 20  # elements: 32 lanes of float32
MEDIUM = 1 << 20  # elements: the unstored results of several calls fit into the staging memory


def only_fake(device_pool: Callable[[int], Pool], accelerator: str) -> Pool:
    if accelerator != "fake":
        pytest.skip("only the fake accelerator's copies can be held")
    return device_pool(RANKS)


def foreign(count: int, value: float) -> torch.Tensor:
    device = fake_device.accelerator()
    tensor: torch.Tensor = fake_device.ops().empty_foreign(count, device)
    tensor.copy_(torch.full((count,), value))
    return tensor


def check_results() -> None:
    """The tensors are dropped after wait(), while results are still to be copied there."""
    device = fake_device.accelerator()
    size = dist.get_world_size()
    last = torch.ones(1000, device=device)
    for count in (1000, MEDIUM):
        outputs = [foreign(count, 1), foreign(2 * count, 1)[::2], foreign(size * count, 0)]
        fake_device.settle(device)
        fake_device.ops().hold_copies("h2d", 0)
        works = [dist.all_reduce(output, async_op=True) for output in outputs[:2]]
        works.append(dist.all_gather_into_tensor(outputs[2], foreign(count, 1), async_op=True))
        for work in works:
            assert work is not None
            work.wait()
        del outputs, works, work
        gc.collect()
        fake_device.ops().release_copies()
        dist.all_reduce(last)
        fake_device.settle(device)
    assert_same(last.cpu(), torch.full((1000,), float(size**2)), "last")


def test_results(device_pool: Callable[[int], Pool], accelerator: str) -> None:
    only_fake(device_pool, accelerator).run(check_results)


def check_inputs_of_a_group_that_failed() -> None:
    """Copies to the host are under way whose end nobody will query any more."""
    device = fake_device.accelerator()
    for make in (foreign, lambda count, value: torch.full((count,), value, device=device)):
        group = dist.new_group()
        tensor = make(LARGE, 1.0)
        fake_device.settle(device)
        dist.barrier()
        fake_device.ops().hold_copies("d2h", 0)
        abort_in_the_middle(group, tensor)
        del tensor
        dist.destroy_process_group(group)
        del group
        gc.collect()
        fake_device.ops().release_copies()
        dist.barrier()
        fake_device.settle(device)


def test_inputs_of_a_group_that_failed(
    device_pool: Callable[[int], Pool], accelerator: str
) -> None:
    only_fake(device_pool, accelerator).run(check_inputs_of_a_group_that_failed)
